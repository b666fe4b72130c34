#include "command/training_program.h"

// The part of `stretto` that needs LibTorch. `stretto` checks the options as far as it can and becomes this program; it
// takes the same arguments.

using namespace stretto::command;

int main(int argc, char** argv) {
  return dispatch_training(
      training_program({.name = "stretto", .summary = "The training part of stretto; start it as `stretto`."}),
      Arguments(argv + 1, argv + argc));
}
