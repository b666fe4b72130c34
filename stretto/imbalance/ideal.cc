#include "stretto/imbalance/ideal.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace stretto {

Duration ideal_makespan(int ranks, std::uint64_t batches, StepTime step_time) {
  using Free = std::pair<Duration, int>;  // since when, and the rank
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (int rank = 0; rank < ranks; ++rank) free.emplace(Duration{0}, rank);
  std::vector<std::uint64_t> steps(static_cast<std::size_t>(ranks));
  Duration end{0};
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    auto [since, rank] = free.top();
    free.pop();
    since += step_time(rank, steps[static_cast<std::size_t>(rank)]++, batch);
    end = std::max(end, since);
    free.emplace(since, rank);
  }
  return end;
}

Duration shortest_makespan(int ranks, std::uint64_t batches,
                           FunctionRef<Duration(int rank, std::uint64_t step)> step_time) {
  using Done = std::pair<Duration, int>;  // with its next step, and the rank
  std::priority_queue<Done, std::vector<Done>, std::greater<>> next;
  for (int rank = 0; rank < ranks; ++rank) next.emplace(step_time(rank, 0), rank);
  std::vector<std::uint64_t> steps(static_cast<std::size_t>(ranks));
  Duration end{0};
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    const auto [done, rank] = next.top();
    next.pop();
    end = done;
    next.emplace(done + step_time(rank, ++steps[static_cast<std::size_t>(rank)]), rank);
  }
  return end;
}

Duration synchronous_makespan(int ranks, std::uint64_t batches, StepTime step_time) {
  Duration end{0};
  Duration slowest{0};
  const auto size = static_cast<std::uint64_t>(ranks);
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    slowest = std::max(slowest, step_time(static_cast<int>(batch % size), batch / size, batch));
    if (batch % size != size - 1 && batch + 1 != batches) continue;
    end += slowest;
    slowest = Duration{0};
  }
  return end;
}

}  // namespace stretto
