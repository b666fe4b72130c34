#include <algorithm>

#include "stretto/papers/servers/server.h"
#include "stretto/papers/servers/shard.h"

namespace stretto {
namespace {

/// Weights on servers, as one bucket: gradients come to it one after the other, and each rank goes on when it is
/// answered.
class ServerSimulation {
 public:
  ServerSimulation(const ServerOptions& options, RankSteps& steps, int ranks, const ShapeJob& job)
      : push_(to_moment(job.costs.push)),
        answer_(to_moment(job.costs.answer)),
        steps_(steps),
        shard_(options, ranks, true),
        ranks_(static_cast<std::size_t>(ranks)),
        arrivals_(static_cast<std::size_t>(ranks)) {}

  Applied run() {
    const int ranks = static_cast<int>(ranks_.size());
    for (int rank = 0; rank < ranks; ++rank) go_on(rank, 0, 0);
    act(0);
    while (steps_.next_end() != RankSteps::kNever || arrivals_.time() != Tournament::kNever) {
      if (steps_.next_end() < arrivals_.time()) {
        const auto rank = static_cast<std::size_t>(steps_.next_rank());
        free_ = std::max(free_, steps_.next_end()) + push_;
        steps_.end_next();
        arrivals_.set(rank, free_, rank);
      } else {
        const double now = arrivals_.time();
        const auto rank = static_cast<int>(arrivals_.first());
        arrivals_.clear(arrivals_.first());
        arrive(rank);
        act(now);
        applied_.last = now;  // the round at the end waits for a gradient that is dropped, too
      }
    }
    applied_.rounds = shard_.version();
    return applied_;
  }

 private:
  struct Rank {
    std::uint64_t pushed = 0;
    Version base = 0;
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void go_on(int rank, double now, double answer) {
    if (!steps_.begin(rank, now + answer)) shard_.ended(rank, at(rank).pushed);
  }

  void arrive(int number) {
    Rank& rank = at(number);
    shard_.pushed(number, rank.pushed, rank.base);
    shard_.asked(number, ++rank.pushed, rank.base + 1);
  }

  void act(double now) {
    while (const auto action = shard_.next()) {
      switch (action->kind) {
        case ShardAction::Kind::apply: apply(*action); break;
        case ShardAction::Kind::drop: ++applied_.dropped; break;
        case ShardAction::Kind::commit: break;  // there is no other bucket
        case ShardAction::Kind::answer:
          at(action->rank).base = shard_.version();
          if (!action->last) go_on(action->rank, now, answer_);
          break;
      }
    }
  }

  void apply(const ShardAction& action) {
    for (const int rank : action.ranks) {
      const Version staleness = action.version - 1 - at(rank).base;
      applied_.staleness += staleness;
      applied_.staleness_max = std::max(applied_.staleness_max, staleness);
    }
    applied_.batches += action.ranks.size();
  }

  const double push_, answer_;
  RankSteps& steps_;
  Shard shard_;
  std::vector<Rank> ranks_;
  Tournament arrivals_;  // of gradients that are on their way
  double free_ = 0;      // from when on the servers take the next gradient
  Applied applied_;
};

}  // namespace

Applied simulate_servers(const ServerOptions& options, RankSteps& steps, int workers, const ShapeJob& job) {
  return ServerSimulation(options, steps, workers, job).run();
}

}  // namespace stretto
