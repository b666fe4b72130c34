#include "command/reproduce.h"

#include "command/fig9.h"

namespace stretto::command {

int run_reproduce(const Arguments& arguments) {
  constexpr Subcommand kReproductions[] = {
      {"fig9", "Latency of allreduces under linear skew: solo, majority, quorum, full, Open MPI.", run_fig9},
  };
  return dispatch("stretto reproduce", "Repeats measurements of the papers and prints theirs beside ours.",
                  kReproductions, arguments);
}

}  // namespace stretto::command
