#pragma once

#include <span>
#include <string>
#include <vector>

namespace stretto {

class SharedArena;

/// The ranks of a job, each with the host that it is on. Hosts are numbered by their lowest ranks. The ranks of a host
/// need not follow one another: mpirun and Slurm may deal them out in turn.
class Members {
 public:
  explicit Members(int ranks) : Members(std::vector<int>(static_cast<std::size_t>(ranks), 0)) {}  ///< on one host
  /// `host_of`: of each rank, by any number that its host alone has. `names`: of each rank's host, as it calls itself;
  /// empty where they are not known.
  explicit Members(const std::vector<int>& host_of, std::vector<std::string> names = {});

  int size() const { return static_cast<int>(host_of_.size()); }  ///< ranks
  int hosts() const { return static_cast<int>(on_.size()); }      ///< with at least one rank
  /// The number of the host that a rank is on.
  int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  /// The ranks of a host, ascending.
  std::span<const int> on(int host) const { return on_[static_cast<std::size_t>(host)]; }
  /// Of each rank the name of its host; empty where all are on one, and where names are not known: ranks are named
  /// alone then.
  const std::vector<std::string>& host_names() const { return names_; }
  /// The index of a rank among those of its host.
  int place_of(int rank) const { return place_of_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<int> host_of_, place_of_;
  std::vector<std::vector<int>> on_;
  std::vector<std::string> names_;
};

/// The host of a rank: who is on it, and what they share.
struct Host {
  std::span<const int> members;  ///< ranks, ascending; lives as long as the transport
  /// The memory of the members, who are numbered there by their places among them; null where they share none.
  SharedArena* arena = nullptr;
};

}  // namespace stretto
