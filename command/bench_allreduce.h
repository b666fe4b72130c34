#pragma once

#include <cstdint>

#include "command/subcommand.h"

namespace stretto::command {

/// `stretto bench allreduce`: latency and bandwidth by ranks and size.
int run_bench_allreduce(const Arguments& arguments);

/// 2 (P − 1)/P · bytes / time in GB/s: what a ring would move over each link (NCCL calls it bus bandwidth).
double bus_bandwidth(int ranks, std::uint64_t bytes, double microseconds);

}  // namespace stretto::command
