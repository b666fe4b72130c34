#include "stretto/train/loop/loop_history.h"

#include <algorithm>

#include "stretto/base/random.h"
#include "stretto/imbalance/ideal.h"

namespace stretto {

LoopHistory::LoopHistory(int rank, int ranks, int max_lag)
    : rank_(rank), max_lag_(static_cast<std::uint64_t>(max_lag)), ranks_(static_cast<std::size_t>(ranks)) {}

void LoopHistory::add(std::uint64_t round, const RoundHeader& header) {
  if (!header.names_ranks() || header.times.empty()) return;
  notice_hold(round, header);
  // Which rank brought several batches the header does not say, unless all brought as many.
  const auto contributions = static_cast<std::uint64_t>(header.contributors());
  const std::uint64_t batches = header.batches % contributions == 0 ? header.batches / contributions : 0;
  for (const RankTimes& times : header.times) {
    OfRank& rank = ranks_[times.rank];
    rank.round = round + 1;
    const double begin = rank.now + times.waited;
    rank.now = begin + times.computed;
    if (rank.last.empty()) make_room(rank);
    if (rank.last.size() == rank.last.capacity()) {
      rank.last.erase(rank.last.begin(), rank.last.end() - static_cast<std::ptrdiff_t>(kLastSteps));
    }
    rank.last.push_back({begin, times.computed, times.waited});
    if (batches == 0) continue;
    add_time(rank, from_seconds(times.computed / static_cast<double>(batches)));
  }
}

void LoopHistory::begin_again() {
  for (OfRank& rank : ranks_) rank.round = 0;
}

/// At the first contribution of a rank, for all that follow: a step allocates nothing.
void LoopHistory::make_room(OfRank& rank) {
  rank.last.reserve(2 * kLastSteps);
  rank.times.reserve(kMostTimes);
}

bool LoopHistory::keeps(std::uint64_t step) const {
  return random_bits(/*seed=*/0, /*stream=*/0, step) % one_in_ == 0;
}

// Where the times of a rank are too many, half of those of each rank go.
void LoopHistory::add_time(OfRank& rank, Duration computed) {
  const Time time{rank.steps++, computed};
  if (!keeps(time.step)) return;
  if (rank.times.size() == kMostTimes) {
    one_in_ *= 2;
    for (OfRank& other : ranks_) std::erase_if(other.times, [this](const Time& old) { return !keeps(old.step); });
    if (!keeps(time.step)) return;
  }
  rank.times.push_back(time);
}

// Of several ranks with old batches that with the oldest contribution is the one whose results were not handed over.
void LoopHistory::notice_hold(std::uint64_t round, const RoundHeader& header) {
  if (header.max_staleness(round) < max_lag_) return;
  for (const RankTimes& times : header.times) {
    const auto rank = static_cast<int>(times.rank);
    if (rank == rank_ || !header.stale.contains(rank)) continue;
    if (held_by_ < 0 || of(rank).round < of(held_by_).round) held_by_ = rank;
  }
}

void LoopHistory::step(Duration waited) {
  if (held_by_ < 0) return;
  ++holds_.rounds;
  holds_.seconds += seconds(waited);
  if (seconds(waited) > holds_.longest) {
    holds_.longest = seconds(waited);
    holds_.rank = held_by_;
  }
  held_by_ = -1;
}

LoopHistory::Estimate LoopHistory::estimate(std::uint64_t batches) const {
  Estimate estimate;
  std::vector<const std::vector<Time>*> times;
  for (const OfRank& rank : ranks_) {
    if (rank.times.empty()) continue;
    times.push_back(&rank.times);
    estimate.steps += rank.times.size();
  }
  if (times.empty() || batches == 0) return estimate;
  const auto time = [&](int rank, std::uint64_t step, std::uint64_t) {
    const auto& of_rank = *times[static_cast<std::size_t>(rank)];
    return of_rank[step % of_rank.size()].computed;
  };
  // So many batches as there are times tell how long one takes.
  const std::uint64_t tried = std::min(batches, estimate.steps);
  const double scale = static_cast<double>(batches) / static_cast<double>(tried);
  const int ranks = static_cast<int>(times.size());
  estimate.sync = scale * seconds(synchronous_makespan(ranks, tried, time));
  estimate.ideal = scale * seconds(ideal_makespan(ranks, tried, time));
  return estimate;
}

}  // namespace stretto
