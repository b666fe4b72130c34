#include <cstdio>
#include <memory>
#include <vector>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/engine/engine.h"
#include "stretto/simulate/cluster.h"

// Four simulated ranks add up 1 + 2 + 3 + 4. Exit status 0 if each of them has 10 in the end.
int main() {
  constexpr int kRanks = 4;
  stretto::SimulatedCluster cluster(kRanks, {}, 1);
  std::vector<std::unique_ptr<stretto::Engine>> engines;
  std::vector<std::unique_ptr<stretto::PartialAllreduce>> collectives;
  for (int rank = 0; rank < kRanks; ++rank) {
    engines.push_back(std::make_unique<stretto::Engine>(cluster.transport(rank), cluster.clock()));
    stretto::Engine& engine = *engines.back();
    cluster.on_wake(rank, [&engine] {
      while (engine.step()) {
      }
    });
    collectives.push_back(std::make_unique<stretto::PartialAllreduce>(
        engine, std::vector<stretto::BucketSpec>{{stretto::DataType::float32, 1}}));
    auto& mine = collectives.back()->acquire();
    mine.as<float>(0)[0] = static_cast<float>(rank + 1);
    collectives.back()->deposit(mine, {});
  }

  int right = 0;
  const auto apply = [&](const stretto::RoundResult& result) { right += result.as<float>(0)[0] == 10 ? 1 : 0; };
  std::vector<bool> done(kRanks);
  for (int remaining = kRanks; remaining > 0;) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (done[rank]) continue;
      done[rank] = collectives[rank]->try_exchange(apply).value() == stretto::PartialAllreduce::Progress::done;
      remaining -= done[rank] ? 1 : 0;
      while (engines[rank]->step()) {
      }
    }
    if (!cluster.run_next() && remaining > 0 && right + remaining > kRanks) break;
  }
  std::printf("%d of %d ranks have the sum\n", right, kRanks);
  return right == kRanks ? 0 : 1;
}
