#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command/machine/namespace_hosts.h"
#include "command/statistics/comparison.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// The time within which a peer must have started: on a busy machine its ranks read PyTorch from a slow disk.
constexpr Duration kPeerStart = std::chrono::minutes(5);

/// One run of a peer's program (microbench/README.md): BENCHMARK ARGUMENTS... in so many processes.
struct PeerJob {
  std::string benchmark;  ///< "allreduce", "skew", "spin", "overlap"
  int ranks = 1;
  std::vector<std::string> arguments;
  Duration limit{0};                                 ///< after which it is ended
  std::shared_ptr<const NamespaceHosts> hosts = {};  ///< among which its ranks are shared out; null: all on this one
};

/// A library with which ours is compared.
struct Peer {
  std::string name;
  /// Returns its output. Errc::unavailable names the missing part; otherwise as run_program().
  std::function<Result<std::string>(const PeerJob&)> run;
  /// How it sends between hosts: which bodies wait until the receiver has asked for them (rendezvous).
  std::string between_hosts;
};

/// openmpi, openmpi-spin, openmpi-eager, mpich, gloo (microbench/README.md says how to add one).
const std::vector<Peer>& known_peers();
const Peer& openmpi();

std::vector<std::string> peer_names();

/// The peers of a list, as in --against. Throws UsageError for one that is unknown or named twice.
std::vector<Peer> parse_peers(const std::string& list);

/// Lines of "BYTES VALUE...", as our ranks and the peer programs print them; lines of another form are skipped.
std::vector<Reading> parse_readings(const std::string& text, int ranks, std::size_t num_values);

/// Runs the job with `sizes` behind its arguments. Errc::aborted also when it has not printed a line for each.
Result<std::vector<Reading>> measure_peer(const Peer& peer, PeerJob job, std::span<const std::uint64_t> sizes,
                                          std::size_t num_values);

}  // namespace stretto::command
