#include <csignal>

#include "command/cli/commands.h"
#include "command/profile/profile_command.h"
#include "command/reproduce/reproductions.h"
#include "command/train/training.h"

namespace stretto::command {

Subcommand training_program(Subcommand texts) {
  texts.table = {train_command(run_train), compare_command(run_compare), reproduce_command({}, run_reproduction),
                 profile_command(run_profile)};
  return texts;
}

int dispatch_training(const Subcommand& program, const Arguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  return dispatch(program, arguments);
}

}  // namespace stretto::command
