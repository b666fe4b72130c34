#include <cstdlib>

#include "command/check.h"
#include "command/reproduce.h"
#include "command/schedule.h"
#include "command/subcommand.h"

using namespace stretto::command;

int main(int argc, char** argv) {
  constexpr Subcommand kSubcommands[] = {
      {"check", "Searches for a violation of what partial collectives promise, by simulation from seeds.", run_check},
      {"reproduce", "Repeats a measurement of the papers and prints theirs beside ours.", run_reproduce},
      {"schedule", "Prints the operations of a collective, for a person, Graphviz or LogGOPSim.", run_schedule},
  };
  return dispatch("stretto",
                  "Distributed training that does not wait for its slowest worker. Compares synchronous training with "
                  "partial collectives on real data, checks their promises, and shows what waiting costs.",
                  kSubcommands, Arguments(argv + 1, argv + argc));
}
