#include <algorithm>

#include "stretto/predict/shape/rank_steps.h"

namespace stretto {

Applied simulate_full_rounds(const StepTimes& times, std::uint64_t every, const ShapeJob& job, double& waited) {
  const auto ranks = static_cast<std::size_t>(times.ranks());
  const std::uint64_t each = job.steps != 0 ? job.steps : times.steps();
  const double cost = to_moment(job.costs.full_round);
  std::vector<double> ready(ranks);
  double now = 0;
  Applied applied;
  for (std::uint64_t made = 0; made < each;) {
    std::ranges::fill(ready, now);
    const std::uint64_t until = std::min(each, made + every);
    const bool whole = until == made + every;
    for (; made < until; ++made) {
      const std::span<const float> lasts = times.step(made % times.steps());
      for (std::size_t rank = 0; rank < ranks; ++rank) ready[rank] += to_moment(static_cast<double>(lasts[rank]));
    }
    now = std::ranges::max(ready) + cost;
    // Behind the last steps of all, fewer than lie between two rounds, nobody waits: all have drained.
    for (std::size_t rank = 0; rank < ranks && whole; ++rank) waited += now - ready[rank];
    applied.fresh += ranks;
    ++applied.rounds;
    if (job.on_round) job.on_round(now * 1e-9);
  }
  applied.batches = each * ranks;
  applied.last = now;
  if (each % every == 0) {  // one more ends the job, when all have found that no batch is left
    ++applied.rounds;
    if (job.on_round) job.on_round((now + cost) * 1e-9);
  }
  return applied;
}

}  // namespace stretto
