#include <algorithm>
#include <utility>

#include "stretto/base/rank_set.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/predict/shape/rank_steps.h"

namespace stretto {
namespace {

/// Partial and full rounds, in which all ranks hear of everything at once. A round has started when its policy says so;
/// ranks join it then, but one that is max_lag results behind joins when it has taken them; and when the last has
/// joined the round takes what its messages cost.
class RoundSimulation {
 public:
  RoundSimulation(const RoundShape& shape, std::uint64_t every, RankSteps& steps, int ranks, const ShapeJob& job)
      : every_(every),
        max_lag_(static_cast<Round>(shape.max_lag)),
        job_(job),
        steps_(steps),
        rule_(shape.policy, ranks, job.seed, shape.full_every),
        ranks_(static_cast<std::size_t>(ranks), Rank(shape.max_lag)),
        arrived_(ranks),
        drained_(ranks),
        header_(ranks) {}

  Applied run() {
    for (int rank = 0; rank < num_ranks(); ++rank) go_on(rank, 0);
    while (!stopped_) {
      const double event = std::min(starts_, completes_), end = steps_.next_end();
      if (end < event) {
        const int rank = steps_.next_rank();
        steps_.end_next();
        end_step(rank, end);
      } else if (completes_ == event) {
        complete(event);
      } else {
        start(event);
      }
    }
    return applied_;
  }

 private:
  struct Pending {
    std::uint64_t batches = 0;
    Round oldest = 0;
    std::uint64_t sum_of_bases = 0;
  };
  struct Rank {
    explicit Rank(int max_lag) : ticket(max_lag) {}
    Ticket ticket;
    Pending pending;          // no round has taken it
    std::uint64_t steps = 0;  // since the last deposit
    bool joined = false;      // the round under way
    bool waits = false;
  };

  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Round open() const { return rule_.next_round(); }
  bool full() const { return rule_.current().kind == Policy::Kind::full; }

  void go_on(int rank, double now) {
    if (!steps_.begin(rank, now)) drain(rank, now);
  }

  void end_step(int rank, double now) {
    if (++at(rank).steps < every_) return go_on(rank, now);
    deposit(at(rank));
    exchange(rank, now);
  }

  void deposit(Rank& rank) {
    const Round base = rank.ticket.handed();
    if (rank.pending.batches == 0) rank.pending.oldest = base;
    rank.pending.batches += rank.steps;
    rank.pending.sum_of_bases += base * rank.steps;
    rank.steps = 0;
  }

  void exchange(int number, double now) {
    Rank& rank = at(number);
    switch (rank.ticket.decide(open(), full())) {
      case Ticket::Move::catch_up:
        take_results(number, now);
        rank.ticket.caught_up(open());
        return go_on(number, now);
      case Ticket::Move::catch_up_then_arrive:
        take_results(number, now);
        rank.ticket.move_to_front(open());
        break;
      case Ticket::Move::arrive: break;
    }
    rank.waits = true;
    arrived_.insert(number);
    arrivals_.push_back({Duration(static_cast<std::int64_t>(now))});
    try_start(now);
  }

  void drain(int number, double now) {
    Rank& rank = at(number);
    if (rank.steps != 0) deposit(rank);
    drained_.insert(number);
    take_results(number, now);
    try_start(now);
  }

  void take_results(int number, double now) {
    Rank& rank = at(number);
    while (rank.ticket.handed() < open()) rank.ticket.handed_over();
    if (started_) join(number, now);
  }

  void try_start(double now) {
    if (started_) return;
    const TimePoint first = arrivals_.empty() ? TimePoint() : arrivals_.front();
    const TimePoint from = may_start_from(rule_.current(), {arrived_, drained_, first, patience_});
    starts_ = from == TimePoint::never() ? RankSteps::kNever : static_cast<double>(from.since_start.count());
    if (starts_ <= now) start(now);
  }

  void start(double now) {
    started_ = true;
    starts_ = RankSteps::kNever;
    for (int rank = 0; rank < num_ranks(); ++rank) join(rank, now);
  }

  void join(int number, double now) {
    Rank& rank = at(number);
    if (rank.joined || open() >= rank.ticket.handed() + max_lag_) return;
    rank.joined = true;
    if (drained_.contains(number)) header_.drained.insert(number);
    if (const Pending taken = std::exchange(rank.pending, {}); taken.batches != 0) {
      ++(taken.oldest == open() ? applied_.fresh : applied_.stale);
      header_.batches += taken.batches;
      applied_.staleness += open() * taken.batches - taken.sum_of_bases;
      applied_.staleness_max = std::max(applied_.staleness_max, open() - taken.oldest);
    }
    const ExchangeCosts& costs = job_.costs;
    if (++joined_ == num_ranks()) completes_ = now + to_moment(full() ? costs.full_round : costs.round);
  }

  void complete(double now) {
    if (header_.batches != 0) applied_.last = now;
    applied_.batches += header_.batches;
    ++applied_.rounds;
    if (job_.on_round) job_.on_round(now * 1e-9);
    stopped_ = header_.drained.all();
    if (rule_.current().adaptive) patience_.learn(arrivals_);
    rule_.advance(header_);
    header_.batches = 0;
    header_.drained.clear();
    arrived_.clear();
    arrivals_.clear();
    started_ = false;
    joined_ = 0;
    completes_ = RankSteps::kNever;
    for (Rank& rank : ranks_) rank.joined = false;
    for (int number = 0; number < num_ranks() && !stopped_; ++number) {
      Rank& rank = at(number);
      if (drained_.contains(number)) {
        take_results(number, now);
      } else if (std::exchange(rank.waits, false)) {
        take_results(number, now);
        rank.ticket.passed();
        go_on(number, now);
      }
    }
    if (!stopped_) try_start(now);
  }

  const std::uint64_t every_;
  const Round max_lag_;
  const ShapeJob& job_;
  RankSteps& steps_;
  PolicyRule rule_;
  LearnedPatience patience_;
  std::vector<Rank> ranks_;
  RankSet arrived_, drained_;
  std::vector<TimePoint> arrivals_;  // at the open round, in order
  RoundHeader header_;               // of the open round; of it `batches` and `drained` alone
  bool started_ = false, stopped_ = false;
  int joined_ = 0;
  double starts_ = RankSteps::kNever, completes_ = RankSteps::kNever;
  Applied applied_;
};

}  // namespace

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

Applied simulate_rounds(const RoundShape& shape, std::uint64_t every, RankSteps& steps, int ranks,
                        const ShapeJob& job) {
  return RoundSimulation(shape, every, steps, ranks, job).run();
}

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
