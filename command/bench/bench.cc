#include "command/commands.h"

namespace stretto::command {

int run_bench(const Arguments& arguments) {
  const Subcommand table[] = {
      {"allreduce", "Latency and bandwidth of an allreduce, by ranks and size.", run_bench_allreduce},
      {"skew", "The same when ranks come one after the other, by who may start it.", run_bench_skew},
      {"spin", "What ranks that wait cost the one that computes.", run_bench_spin},
      {"overlap", "How much of the communication disappears behind computation.", run_bench_overlap},
      {"simulate", "What it takes to simulate rounds of many ranks.", run_bench_simulate},
      {"limits", "What this machine can do at most: copy, sum, hand over.", run_bench_limits},
      {"tune", "What the choice of an allreduce's way knows about this machine: fits it anew.", run_bench_tune},
      {"plot", "Draws latency and bandwidth of allreduces over their size.", run_bench_plot},
  };
  return dispatch("stretto bench",
                  "Measures our collectives, and beside them, in the same run, those of other libraries.", table,
                  arguments);
}

}  // namespace stretto::command
