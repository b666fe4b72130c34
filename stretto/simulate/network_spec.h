#pragma once

#include <string>

#include "stretto/simulate/cluster.h"

namespace stretto {

/// Bytes per second. What a message of a gigabyte takes there is still far below the longest duration.
inline constexpr double kLeastBandwidth = 1e4;

/// Reads a network between hosts, written as parts joined by commas, each of which may be left out:
///   latency=1us          of every message; 1us
///   bandwidth=10GB/s     of each rank's card, in each direction; 10GB/s. Also kB/s, MB/s, and Mbit/s, Gbit/s
///   overhead=100ns       a sender is busy this long with each message; 100ns
///   jitter=0             added to the latency, drawn uniformly from 0 to this; 0
///   sharing=fair         large messages share the cards instead of queueing there (NetworkOptions::fair_shares); fifo
///   unevenness=0.5       of fair shares, from 0 to 10 (NetworkOptions::unevenness); 0
/// A rank's messages share its card (NetworkOptions::shared_card). An empty text: all as left out. Throws UsageError
/// that names the part, the parts expected and an example.
NetworkOptions parse_network(const std::string& written);

/// The text that parse_network() reads, with every part that counts.
std::string to_text(const NetworkOptions& network);

}  // namespace stretto
