#include "command/commands.h"

#include <utility>

namespace stretto::command {

Subcommand bench_command(std::function<int(const OrderingPlanCommand&)> networks) {
  Subcommand group{
      .name = "bench",
      .summary = "Measures our collectives beside those of other libraries.",
      .introduction = "Measures our collectives, and beside them, in the same run, those of other libraries.",
      .table = {bench_allreduce_command(), bench_skew_command(), bench_spin_command(), bench_overlap_command(),
                bench_simulate_command(), bench_limits_command(), bench_link_command(), bench_tune_command(),
                bench_plot_command()}};
  for (Subcommand& command : ordering_benchmarks(std::move(networks))) group.table.push_back(std::move(command));
  return group;
}

Subcommand predict_command() {
  return {.name = "predict",
          .summary = "Says how fast a job will be, from what one worker takes.",
          .introduction = "Says how fast a job of data-parallel training will be, from what one worker takes.",
          .table = {predict_coarse_command(), predict_fine_command(), predict_fit_command(), predict_run_command()}};
}

}  // namespace stretto::command
