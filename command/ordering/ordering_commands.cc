#include "command/ordering/ordering_commands.h"

#include <utility>

namespace stretto::command {

std::vector<Subcommand> ordering_benchmarks(std::function<int(const OrderingPlanCommand&)> networks) {
  return {bench_oversleep_command(), bench_ordering_costs_command(), bench_ordering_plan_command(std::move(networks))};
}

std::vector<Subcommand> ordering_reproductions() {
  return {reproduce_ordering_command()};
}

}  // namespace stretto::command
