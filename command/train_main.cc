#include <utility>
#include <vector>

#include "command/cli/commands.h"
#include "command/ordering/ordering_commands.h"
#include "command/schedule/schedule_plan.h"
#include "stretto/papers/register.h"

// The part of `stretto` that needs LibTorch. `stretto` checks the options as far as it can and becomes this program; it
// takes the same arguments.

using namespace stretto::command;

int main(int argc, char** argv) {
  stretto::register_papers();
  Subcommand program =
      training_program({.name = "stretto", .summary = "The training part of stretto; start it as `stretto`."});
  if (std::vector<Subcommand> benchmarks = ordering_benchmarks(run_bench_networks); !benchmarks.empty()) {
    program.table.push_back(
        {.name = "bench", .summary = "Measures what modules of LibTorch cost.", .table = std::move(benchmarks)});
  }
  program.table.push_back(schedule_plan_command(run_schedule_plan));
  return dispatch_training(program, Arguments(argv + 1, argv + argc));
}
