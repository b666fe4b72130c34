#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto reproduce fig9`: latency of partial allreduces under linear skew, beside Open MPI's (eager-SGD, Fig. 9).
int run_fig9(const Arguments& arguments);

/// What one line of the table and of the JSON says.
struct Fig9Row {
  std::string library;     ///< "stretto", "openmpi"
  std::string activation;  ///< "solo", "quorum:16", …
  int ranks = 0;
  std::uint64_t bytes = 0;
  int rounds = 0;
  double mean_ms = 0;
  double ideal_ms = 0;
  double arrived = 0;
  double fresh = 0;
  double cores = 0;
};

/// The rows that the peer program prints, one a line: "BYTES MEAN_MS CORES". What is malformed is left out.
std::vector<Fig9Row> parse_peer_rows(const std::string& text, int ranks, int rounds, double ideal_ms);

}  // namespace stretto::command
