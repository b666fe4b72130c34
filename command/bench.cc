#include "command/bench.h"

#include "command/bench_allreduce.h"

namespace stretto::command {

int run_bench(const Arguments& arguments) {
  const Subcommand table[] = {
      {"allreduce", "Latency and bandwidth of an allreduce, by ranks and size.", run_bench_allreduce},
  };
  return dispatch("stretto bench",
                  "Measures our collectives, and beside them, in the same run, those of other libraries.", table,
                  arguments);
}

}  // namespace stretto::command
