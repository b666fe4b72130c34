#include "command/training_program.h"

#include <csignal>

#include "command/profile/profile.h"
#include "command/reproduce/reproduce_training.h"
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
