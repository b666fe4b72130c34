#include "command/cli/subcommand.h"
#include "command/cli/torch_program.h"
#include "command/commands.h"
#include "command/pages/completion.h"
#include "command/pages/man_page.h"
#include "command/profile/profile_command.h"
#include "command/report/report.h"
#include "command/reproduce/reproductions.h"
#include "command/schedule/schedule_plan.h"
#include "command/train/compare_program.h"
#include "command/train/training_options.h"

// Commands that do not train do not load Torch. Those that do are a second program, which this one becomes once it has
// checked the options.

using namespace stretto::command;

int main(int argc, char** argv) {
  const Arguments arguments(argv + 1, argv + argc);
  const auto train = [&arguments](const auto&...) -> int { become_training_program(arguments); };
  Subcommand program{
      .name = "stretto",
      .summary = "distributed training that does not wait for its slowest worker",
      .introduction =
          "Distributed training that does not wait for its slowest worker. Compares synchronous training "
          "with partial collectives on real data, checks their promises, and shows what waiting costs.",
      .table = {train_command(train), compare_command(train),
                reproduce_command(
                    {fig9_command(), group_latency_command(), idle_command(), reproduce_ordering_command()}, train),
                bench_command(train), profile_command(train), predict_command(), advise_command(), report_command(),
                check_command(), schedule_command(), schedule_plan_command(train)}};
  add_comparisons_of_own(program);
  program.table.push_back(man_command(program));
  program.table.push_back(completion_command(program));
  return dispatch(program, arguments);
}
