#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command/bench/peers.h"
#include "command/cli/command_line.h"
#include "command/machine/namespace_hosts.h"

namespace stretto::command {

/// The options that say how many ranks a measurement has, and where they are: --ranks, --over, --rate.
class RankPlaces {
 public:
  /// `ranks`: of --ranks, where neither it nor --over is given.
  explicit RankPlaces(std::string ranks) : default_(std::move(ranks)) {}

  /// `more`: what --help says behind the default of --ranks.
  void describe(CommandLine& line, const std::string& more = "");
  /// The same without --ranks.
  void describe_hosts(CommandLine& line);
  /// Each number of ranks to measure. Throws UsageError where the options do not fit together.
  std::vector<int> ranks() const;
  /// Makes the hosts of --over; null: all ranks are on this one. Throws as NamespaceHosts.
  std::shared_ptr<const NamespaceHosts> make_hosts() const;
  /// "4 hosts of 2 ranks, links of 1gbit", and how each peer sends between them; empty where all ranks are on this
  /// host.
  std::string words(std::span<const Peer> peers = {}) const;

 private:
  std::string default_, ranks_, rate_;
  int hosts_ = 0, each_ = 0;  // of --over
};

}  // namespace stretto::command
