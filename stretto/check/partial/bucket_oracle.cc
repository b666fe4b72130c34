#include "stretto/check/partial/bucket_oracle.h"

#include <algorithm>

namespace stretto {
namespace {

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

/// Element j of a bucket, where it lies behind those that say what it holds, for a deposit with this number.
std::uint64_t behind(int rank, std::uint64_t number, std::size_t bucket, std::size_t j) {
  return number * static_cast<std::uint64_t>(rank + 1) * (2 * (j + bucket) + 1);
}

}  // namespace

BucketOracle::BucketOracle(const Scenario& scenario, JobFinding& finding)
    : RoundsOracle(scenario.ranks, scenario.options.max_lag, finding),
      scenario_(scenario),
      bases_(at(scenario.ranks)),
      taken_(scenario.buckets.size(), std::vector<std::uint64_t>(at(scenario.ranks))),
      next_handed_(at(scenario.ranks)),
      rule_(scenario.options.policy, scenario.ranks, scenario.options.seed, scenario.options.full_every) {}

void BucketOracle::fill(Contribution& contribution, int rank, std::uint64_t deposit, std::size_t first,
                        std::size_t end) const {
  const auto ranks = at(scenario_.ranks);
  for (std::size_t b = first; b < end; ++b) {
    const auto elements = contribution.as<std::uint64_t>(static_cast<int>(b));
    std::fill_n(elements.begin(), 2 * ranks, 0);
    elements[2 * at(rank)] = 1;
    elements[2 * at(rank) + 1] = deposit + 1;
    for (std::size_t j = 2 * ranks; j < elements.size(); ++j) elements[j] = behind(rank, deposit + 1, b, j);
  }
}

void BucketOracle::deposit_begins(int rank) {
  bases_[at(rank)].push_back(next_handed_[at(rank)]);
}

BucketOracle::Taken BucketOracle::read(const RoundResult& result, std::size_t bucket) const {
  Taken taken{result.header_of(static_cast<int>(bucket)), {}, {}};
  const auto sum = result.as<std::uint64_t>(static_cast<int>(bucket));
  for (std::size_t rank = 0; rank < at(scenario_.ranks); ++rank) {
    taken.counts.push_back(sum.empty() ? 0 : sum[2 * rank]);
    taken.numbers.push_back(sum.empty() ? 0 : sum[2 * rank + 1]);
  }
  return taken;
}

std::string BucketOracle::fault(const RoundResult& result, std::size_t bucket, const Taken& taken) const {
  const auto sum = result.as<std::uint64_t>(static_cast<int>(bucket));
  const std::uint64_t wanted = taken.header.empty() ? 0 : scenario_.buckets[bucket].count;
  if (sum.size() != wanted) return text("has ", sum.size(), " elements of ", wanted);
  const std::size_t ranks = at(scenario_.ranks);
  for (std::size_t j = 0; j < sum.size(); ++j) {
    std::uint64_t expected = 0;
    if (j < 2 * ranks) {
      expected = (j % 2 == 0 ? taken.counts : taken.numbers)[j / 2];
    } else {
      for (int rank = 0; rank < scenario_.ranks; ++rank) expected += behind(rank, taken.numbers[at(rank)], bucket, j);
    }
    if (sum[j] != expected) return text("element ", j, " is not the sum of the deposits that the first ones count");
  }
  return {};
}

void BucketOracle::take(const RoundResult& result, std::size_t bucket, const Taken& taken) {
  const std::string where = text("round ", result.round, ", bucket ", bucket);
  std::uint64_t batches = 0, sum_of_bases = 0;
  Round oldest = RoundHeader::kNoBase;
  RankSet fresh(scenario_.ranks), stale(scenario_.ranks);
  for (int rank = 0; rank < scenario_.ranks; ++rank) {
    const std::uint64_t count = taken.counts[at(rank)];
    std::uint64_t& before = taken_[bucket][at(rank)];
    const auto& bases = bases_[at(rank)];
    if (count > bases.size() - before) {
      return violated(text("I3: ", where, " takes ", count, " deposits of rank ", rank, ", of which ",
                           bases.size() - before, " are left"));
    }
    if (taken.numbers[at(rank)] != count * before + count * (count + 1) / 2) {
      return violated(text("promise 2: ", where, " does not take the next ", count, " deposits of rank ", rank));
    }
    if (count == 0) continue;
    Round first = RoundHeader::kNoBase;
    for (std::uint64_t i = before; i < before + count; ++i) {
      first = std::min(first, bases[i]);
      sum_of_bases += bases[i];
    }
    before += count;
    batches += count;
    oldest = std::min(oldest, first);
    (first == result.round ? fresh : stale).insert(rank);
  }
  const RoundHeader& header = taken.header;
  if (header.batches != batches || header.oldest_base != oldest || header.sum_of_bases != sum_of_bases ||
      !(header.fresh == fresh) || !(header.stale == stale)) {
    violated(text("I2: the header of ", where, " does not say what its sum holds"));
  }
  if (header.max_staleness(result.round) > max_lag()) {
    violated(text("I4: ", where, " takes a deposit with base ", oldest, ": older than max_lag ", max_lag()));
  }
  check_start(result.policy, bucket, header);
}

/// Promise 3, as far as the header tells: who had arrived when the round started waits until it is complete.
void BucketOracle::check_start(const Policy& policy, std::size_t bucket, const RoundHeader& header) {
  const RankSet come = header.arrived | header.drained;
  bool may = header.drained.all();
  switch (policy.kind) {
    case Policy::Kind::solo: may |= !header.arrived.empty(); break;
    case Policy::Kind::majority: may |= come.contains(static_cast<int>(policy.initiator)); break;
    case Policy::Kind::quorum:
    case Policy::Kind::deadline: may |= come.count() >= static_cast<int>(policy.quorum); break;
    case Policy::Kind::full: may |= come.all(); break;
  }
  if (!may) {
    violated(text("I5: round ", rounds_.size(), " (", policy.to_string(), ") of bucket ", bucket, " started with ",
                  come.count(), " ranks"));
  }
}

void BucketOracle::check_nothing_pending(const std::string& after) {
  for (std::size_t bucket = 0; bucket < taken_.size(); ++bucket) {
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      const std::uint64_t left = bases_[at(rank)].size() - taken_[bucket][at(rank)];
      if (left > 0) {
        violated(text("E3: ", after, " leaves ", left, " deposits of rank ", rank, " pending in bucket ", bucket));
      }
    }
  }
}

void BucketOracle::see(const RoundResult& result) {
  Seen seen{result.policy, {}};
  for (std::size_t b = 0; b < scenario_.buckets.size(); ++b) {
    seen.buckets.push_back(read(result, b));
    take(result, b, seen.buckets.back());
  }
  if (!(rule_.current() == result.policy)) {
    violated(text("E2: round ", result.round, " has policy ", result.policy.to_string(),
                  "; from the headers of the first bucket follows ", rule_.current().to_string()));
  }
  if (last_is_over_) violated(text("round ", result.round, " follows a last one"));
  rule_.advance(seen.buckets[0].header);
  last_is_over_ = seen.buckets[0].header.drained.all();
  if (result.policy.kind == Policy::Kind::full) check_nothing_pending(text("the full round ", result.round));
  if (last_is_over_) check_nothing_pending(text("the last round, ", result.round, ','));
  note(seen);
  ++finding().rounds;
  rounds_.push_back(std::move(seen));
}

void BucketOracle::note(const Seen& seen) {
  const RoundHeader& first = seen.buckets[0].header;
  const bool split =
      std::ranges::any_of(seen.buckets, [&](const Taken& taken) { return taken.numbers != seen.buckets[0].numbers; });
  finding().reached[0] += split;
  finding().reached[1] += scenario_.shares_memory();
  finding().reached[2] += seen.policy.kind == Policy::Kind::full;
  finding().reached[3] += !(first.arrived | first.drained).all();
  finding().reached[4] += !first.drained.empty();
  finding().reached[6] += first.empty();
}

void BucketOracle::handed_over(int rank, const RoundResult& result, const IntegerModel&) {
  Round& next = next_handed_[at(rank)];
  if (result.round != next) {
    return violated(text("promise 6: rank ", rank, " is handed round ", result.round, " after ", next, " rounds"));
  }
  ++next;
  if (result.round == rounds_.size()) see(result);
  const Seen& seen = rounds_[result.round];
  if (!(result.policy == seen.policy)) {
    violated(text("round ", result.round, " has another policy on rank ", rank));
  }
  for (std::size_t b = 0; b < seen.buckets.size(); ++b) {
    if (!(result.header_of(static_cast<int>(b)) == seen.buckets[b].header)) {
      violated(text("I2: rank ", rank, " is given another header of round ", result.round, ", bucket ", b));
    }
    if (const std::string wrong = fault(result, b, seen.buckets[b]); !wrong.empty()) {
      violated(text("promise 1/2: round ", result.round, " on rank ", rank, ", bucket ", b, ": ", wrong));
    }
  }
}

/// Promise 5 for the round after those that some rank has been handed: it is complete in every bucket, on every rank,
/// where it is not held and enough have come.
void BucketOracle::quiet(const std::vector<ProtocolState>& states) {
  const Round open = rule_.next_round();
  if (last_is_over_ || open >= std::ranges::min(next_handed_) + max_lag()) return;
  const RankSet arrived = arrived_at(open);
  if (!start_is_due(rule_.current(), arrived, all_drained())) return;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    if (states[rank].complete > open) continue;
    violated(text("promise 5: nothing moves, and round ", open, " (", rule_.current().to_string(),
                  "), which is not held, is not complete on rank ", rank, " in every bucket: of ",
                  (arrived | all_drained()).count(), " ranks that have come"));
  }
}

void BucketOracle::ended(const std::vector<bool>& done, const std::vector<ProtocolState>& states) {
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    if (!done[rank]) {
      return violated(text("I6: deadlock: rank ", rank, " waits with t ", states[rank].ticket, ", h ",
                           states[rank].handed, ", c ", states[rank].complete));
    }
    if (next_handed_[rank] != rounds_.size()) {
      violated(text("I6: rank ", rank, " ends after ", next_handed_[rank], " rounds of ", rounds_.size()));
    }
  }
  if (!last_is_over_) violated("the ranks end before a round that shows everyone drained");
}

}  // namespace stretto
