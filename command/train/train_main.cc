#include "command/cli/subcommand.h"
#include "command/commands.h"
#include "command/train/training.h"

// The part of `stretto` that needs LibTorch. `stretto` checks the options as far as it can and becomes this program; it
// takes the same arguments.

using namespace stretto::command;

int main(int argc, char** argv) {
  const Subcommand subcommands[] = {
      {"train", "Trains a network on several ranks, by one algorithm.", run_train},
      {"compare", "Trains the same job by several algorithms and shows what waiting cost.", run_compare},
      {"reproduce", "Repeats a measurement that trains.", run_training_reproduction},
  };
  return dispatch("stretto", "The training part of stretto; start it as `stretto`.", subcommands,
                  Arguments(argv + 1, argv + argc));
}
