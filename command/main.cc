#include "command/bench.h"
#include "command/check.h"
#include "command/exit_code.h"
#include "command/reproduce.h"
#include "command/schedule.h"
#include "command/subcommand.h"
#include "command/torch_program.h"
#include "command/training_options.h"

// What does not train does not load Torch: that part is a second program, which this one becomes once it knows that
// what is asked for makes sense.

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
