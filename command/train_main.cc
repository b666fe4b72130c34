#include <csignal>

#include "command/training_program.h"

// The part of `stretto` that needs LibTorch. `stretto` checks the options as far as it can and becomes this program; it
// takes the same arguments.

using namespace stretto::command;

int main(int argc, char** argv) {
  // A pipe that nobody reads any more, as of `stretto train 2>&1 | head`, must not end a run that has a folder to write
  // to. What could not be printed is said at the end, and the exit status says it, too.
  std::signal(SIGPIPE, SIG_IGN);
  return dispatch(
      training_program({.name = "stretto", .summary = "The training part of stretto; start it as `stretto`."}),
      Arguments(argv + 1, argv + argc));
}
