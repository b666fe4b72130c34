#include "command/cli/exit_code.h"
#include "command/cli/torch_program.h"
#include "command/commands.h"
#include "command/reproduce/idle.h"
#include "command/reproduce/reproductions.h"

namespace stretto::command {

namespace {

// Checks the options as far as possible here, then becomes the program that trains.
int forward(const Reproduction& reproduction, const Arguments& arguments) {
  if (!parse_reproduction(reproduction, arguments)) return kSuccess;
  Arguments all = {"reproduce", reproduction.name};
  all.insert(all.end(), arguments.begin(), arguments.end());
  become_training_program(all);
}

}  // namespace

int run_reproduce(const Arguments& arguments) {
  std::vector<Subcommand> table = {
      {"fig9", "Latency of allreduces under linear skew: solo, majority, quorum, full, Open MPI.", run_fig9},
      {"idle", "What ranks that wait cost the one that computes.", run_idle},
  };
  for (const Reproduction& reproduction : training_reproductions()) {
    table.push_back({reproduction.name, reproduction.summary,
                     [&reproduction](const Arguments& rest) { return forward(reproduction, rest); }});
  }
  return dispatch("stretto reproduce", "Repeats measurements of the papers and prints theirs beside ours.", table,
                  arguments);
}

}  // namespace stretto::command
