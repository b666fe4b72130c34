#pragma once

#include <string>
#include <vector>

namespace stretto::command {

/// The environment of the ranks of one job of `stretto run`: that of the command, without what another launcher has
/// said there about its own job, and with what torchrun sets, but for its store. By it torch.distributed, accelerate
/// and Lightning find their places, and Stretto's ranks each other.
class RankEnvironment {
 public:
  /// `inherited`: NAME=VALUE entries. Throws Failure (Errc::io) where no port of this host is free.
  RankEnvironment(int ranks, const std::vector<std::string>& inherited);

  /// NAME=VALUE entries of a rank, 0 … ranks − 1.
  std::vector<std::string> of(int rank) const;

 private:
  std::vector<std::string> common_;
};

/// The entries of this process's own environment.
std::vector<std::string> own_environment();

/// The ranks' share of the cores, to which OMP_NUM_THREADS is set where it is not.
int threads_of_a_rank(int ranks);

}  // namespace stretto::command
