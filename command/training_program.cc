#include "command/training_program.h"

#include "command/reproduce/reproduce_training.h"
#include "command/train/training.h"

namespace stretto::command {

Subcommand training_program(Subcommand texts) {
  texts.table = {train_command(run_train), compare_command(run_compare), reproduce_command({}, run_reproduction)};
  return texts;
}

}  // namespace stretto::command
