#include "command/cli/exit_code.h"
#include "command/cli/subcommand.h"
#include "command/cli/torch_program.h"
#include "command/commands.h"
#include "command/train/compare_program.h"
#include "command/train/training_options.h"

// Subcommands that do not train do not load Torch. Those that do are a second program, which this one becomes once it
// has checked the options.

using namespace stretto::command;

namespace {

Arguments behind(const char* command, const Arguments& arguments) {
  Arguments out = {command};
  out.insert(out.end(), arguments.begin(), arguments.end());
  return out;
}

int forward_train(const Arguments& arguments) {
  if (!parse_train(arguments)) return kSuccess;
  become_training_program(behind("train", arguments));
}

int forward_compare(const Arguments& arguments) {
  if (names_a_program(arguments)) return run_compare_program(arguments);
  if (!parse_compare(arguments)) return kSuccess;
  become_training_program(behind("compare", arguments));
}

}  // namespace

int main(int argc, char** argv) {
  const Subcommand subcommands[] = {
      {"train", "Trains a network on several ranks, by one algorithm.", forward_train},
      {"compare", "Trains the same job by several algorithms and shows what waiting cost.", forward_compare},
      {"reproduce", "Repeats a measurement of the papers and prints theirs beside ours.", run_reproduce},
      {"bench", "Measures our collectives beside those of other libraries.", run_bench},
      {"check", "Searches for a violation of what partial collectives promise, by simulation from seeds.", run_check},
      {"schedule", "Prints the operations of a collective, for a person, Graphviz or LogGOPSim.", run_schedule},
  };
  return dispatch("stretto",
                  "Distributed training that does not wait for its slowest worker. Compares synchronous training with "
                  "partial collectives on real data, checks their promises, and shows what waiting costs.",
                  subcommands, Arguments(argv + 1, argv + argc));
}
