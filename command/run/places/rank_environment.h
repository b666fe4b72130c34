#pragma once

#include <string>
#include <vector>

namespace stretto::command {

/// Where rank 0 of a job will be, by which the ranks find each other.
struct PlaceOfFirst {
  std::string address = "127.0.0.1";
  int master_port = 0;   ///< where torch.distributed's store will be; 0: one that is free here
  int meeting_port = 0;  ///< STRETTO_MEETING's; 0: all ranks are on one host, and meet in its memory
};

/// A place at which this host's rank 0 may be reached by other hosts, as STRETTO_INTERFACE and STRETTO_PORTS wish.
/// Throws Failure where there is none.
PlaceOfFirst open_place();

/// Ranks of a job that are started on one of its hosts.
struct RanksOfHost {
  int first = 0;            ///< its lowest rank
  int host = 0, hosts = 1;  ///< its number among those of the job
  std::string run_id = {};  ///< the name of the job, the same on all hosts; empty: a new one
  PlaceOfFirst place = {};
};

/// The environment of the ranks of one job of `stretto run` on this host: that of the command, without what another
/// launcher has said there about its own job, and with what torchrun sets, but for its store. By it torch.distributed,
/// accelerate and Lightning find their places, and Stretto's ranks each other.
class RankEnvironment {
 public:
  /// `here` of the job's `ranks` are on this host, the one of `on_host`. `inherited`: NAME=VALUE entries. Throws
  /// Failure (Errc::io) where no port of this host is free.
  RankEnvironment(int ranks, int here, RanksOfHost on_host, const std::vector<std::string>& inherited);
  /// All ranks are on this host.
  RankEnvironment(int ranks, const std::vector<std::string>& inherited)
      : RankEnvironment(ranks, ranks, {}, inherited) {}

  /// NAME=VALUE entries of a rank that is started here.
  std::vector<std::string> of(int rank) const;

 private:
  const int first_;
  std::vector<std::string> common_;
};

/// A name that no other job has.
std::string new_run_id();

/// The entries of this process's own environment.
std::vector<std::string> own_environment();

/// The ranks' share of the cores, to which OMP_NUM_THREADS is set where it is not.
int threads_of_a_rank(int ranks);

}  // namespace stretto::command
