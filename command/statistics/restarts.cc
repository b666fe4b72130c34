#include "command/statistics/restarts.h"

#include <fmt/format.h>

#include <cmath>

namespace stretto::command {

double restarts_keep(const RestartingJob& job) {
  const double between = job.life / job.members, stretch = job.steps_between * job.step;
  return stretch / (between * std::exp(job.restart / between) * std::expm1(stretch / between));
}

std::string restarts_in_words() {
  const RestartingJob job;
  return fmt::format(
      "all processes begin anew in {} s (torchrun with four ranks, docs/lab/elastic.md) from a checkpoint every {} "
      "steps, by arithmetic",
      job.restart, job.steps_between);
}

}  // namespace stretto::command
