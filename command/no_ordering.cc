#include "command/ordering/ordering_commands.h"
#include "stretto/base/error.h"

namespace stretto::command {

std::vector<Subcommand> ordering_benchmarks(std::function<int(const OrderingPlanCommand&)>) {
  return {};
}

std::vector<Subcommand> ordering_reproductions() {
  return {};
}

int run_bench_networks(const OrderingPlanCommand&) {
  throw Failure(
      {Errc::unavailable, "this build has no experiments on orders of gradients (STRETTO_PAPERS_ORDERING=OFF)"});
}

}  // namespace stretto::command
