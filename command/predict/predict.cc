#include "command/commands.h"

namespace stretto::command {

Subcommand predict_command() {
  return {.name = "predict",
          .summary = "Says how fast a job will be, from what one worker takes.",
          .introduction = "Says how fast a job of data-parallel training will be, from what one worker takes.",
          .table = {predict_coarse_command(), predict_fine_command(), predict_fit_command(), predict_run_command()}};
}

}  // namespace stretto::command
