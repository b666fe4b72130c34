#include <algorithm>
#include <utility>

#include "stretto/base/rank_set.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/predict/shape/rank_steps.h"

namespace stretto {
namespace {

/// Rounds of groups: one at a time, for all ranks at once, whichever groups they are in. A rank that is late never
/// waits, but at full rounds.
class GroupSimulation {
 public:
  GroupSimulation(const GroupRoundShape& shape, std::uint64_t every, RankSteps& steps, int ranks, const ShapeJob& job)
      : shape_(shape),
        every_(every),
        job_(job),
        steps_(steps),
        ranks_(static_cast<std::size_t>(ranks), Rank(shape.late_ranks_jump)),
        waits_(ranks),
        drained_(ranks) {}

  Applied run() {
    for (int rank = 0; rank < waits_.size(); ++rank) go_on(rank, 0);
    while (!stopped_) {
      const double end = steps_.next_end();
      if (end >= completes_) {
        complete(completes_);
        continue;
      }
      const int rank = steps_.next_rank();
      steps_.end_next();
      end_step(rank, end);
    }
    return applied_;
  }

 private:
  struct Rank {
    explicit Rank(bool jumps) : ticket(jumps) {}
    GroupTicket ticket;
    std::uint64_t steps = 0;  // since the last exchange
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  bool full() const { return (open_ + 1) % shape_.full_every == 0; }

  void go_on(int rank, double now) {
    if (steps_.begin(rank, now)) return;
    drained_.insert(rank);
    try_start(now);
  }

  void end_step(int number, double now) {
    Rank& rank = at(number);
    if (++rank.steps < every_) return go_on(number, now);
    rank.steps = 0;
    if (rank.ticket.late(open_)) {
      rank.ticket.passed(open_);
      return go_on(number, now);
    }
    waits_.insert(number);
    try_start(now);
  }

  bool may_start() const {
    const int come = (waits_ | drained_).count();
    if (full() || drained_.all()) return come == waits_.size();
    return !waits_.empty() && come >= shape_.quorum;
  }

  void try_start(double now) {
    if (completes_ != RankSteps::kNever || stopped_ || !may_start()) return;
    completes_ = now + to_moment(full() ? job_.costs.full_round : job_.costs.round);
    last_ = full() && drained_.all();
  }

  void complete(double now) {
    if (full() && applied_.batches < steps_.made()) {
      applied_.batches = steps_.made();
      applied_.last = now;
    }
    ++applied_.rounds;
    ++open_;
    completes_ = RankSteps::kNever;
    stopped_ = last_;
    const RankSet released = std::exchange(waits_, RankSet(waits_.size()));
    for (int rank = 0; rank < released.size() && !stopped_; ++rank) {
      if (!released.contains(rank)) continue;
      at(rank).ticket.passed(open_);
      go_on(rank, now);
    }
    try_start(now);
  }

  const GroupRoundShape shape_;
  const std::uint64_t every_;
  const ShapeJob& job_;
  RankSteps& steps_;
  std::vector<Rank> ranks_;
  RankSet waits_, drained_;
  Round open_ = 0;
  bool last_ = false, stopped_ = false;  // the round under way is the last; it is over
  double completes_ = RankSteps::kNever;
  Applied applied_;
};

}  // namespace

Applied simulate_groups(const GroupRoundShape& shape, std::uint64_t every, RankSteps& steps, int ranks,
                        const ShapeJob& job) {
  return GroupSimulation(shape, every, steps, ranks, job).run();
}

}  // namespace stretto
