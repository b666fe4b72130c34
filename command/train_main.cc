#include "command/cli/subcommand.h"
#include "command/reproduce/reproduce_training.h"
#include "command/train/training.h"

// The part of `stretto` that needs LibTorch. `stretto` checks the options as far as it can and becomes this program; it
// takes the same arguments.

using namespace stretto::command;

int main(int argc, char** argv) {
  const Subcommand program{
      .name = "stretto",
      .summary = "The training part of stretto; start it as `stretto`.",
      .table = {train_command(run_train), compare_command(run_compare), reproduce_command({}, run_reproduction)}};
  return dispatch(program, Arguments(argv + 1, argv + argc));
}
