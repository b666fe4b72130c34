#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::command {

/// A host on which ranks are started, by the name that the remote shell knows it by.
struct HostRanks {
  std::string name;
  int ranks = 1;

  /// Whether that is this host, where no remote shell is needed: "localhost", or as this host calls itself.
  bool is_here() const;
  friend bool operator==(const HostRanks&, const HostRanks&) = default;
};

/// Reads "a,b:4,c": one rank, or so many, on each. Throws UsageError.
std::vector<HostRanks> parse_hosts(std::string_view option, const std::string& text);

/// Of all hosts.
int ranks_of(const std::vector<HostRanks>& hosts);

/// The hosts of a job of so many ranks, which are filled in their order: the last one may have fewer, and those that
/// have none are left out. Requires: ranks_of(hosts) is not less.
std::vector<HostRanks> first_ranks(std::vector<HostRanks> hosts, int ranks);

}  // namespace stretto::command
