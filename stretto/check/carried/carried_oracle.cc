#include "stretto/check/carried/carried_oracle.h"

#include <algorithm>
#include <utility>

#include "stretto/base/random.h"
#include "stretto/check/partial/payload.h"

namespace stretto {
namespace {

std::uint64_t samples_of(std::uint64_t deposit) {
  return 1 + deposit % 3;
}

}  // namespace

CarriedOracle::CarriedOracle(std::vector<BucketSpec> buckets, int members, int max_lag, std::uint64_t seed,
                             JobFinding& finding)
    : buckets_(std::move(buckets)),
      members_(static_cast<std::size_t>(members)),
      max_lag_(static_cast<Round>(max_lag)),
      seed_(seed),
      finding_(finding),
      bases_(members_),
      handed_(members_) {}

void CarriedOracle::deposit(int member, Contribution& contribution, Round base) {
  const auto m = static_cast<std::size_t>(member);
  const std::uint64_t number = bases_[m].size();
  const std::uint64_t value = random_bits(seed_, m, number);
  bases_[m].push_back(base);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto elements = contribution.as<std::uint64_t>(static_cast<int>(b));
    const std::size_t told = b == 0 ? 2 * members_ : 0;
    for (std::size_t j = 0; j < told; ++j) elements[j] = j == 2 * m ? 1 : j == 2 * m + 1 ? number + 1 : 0;
    for (std::size_t j = told; j < elements.size(); ++j) elements[j] = Payload::element(value, b, j);
  }
}

void CarriedOracle::begin_world(const PartialOptions& options, std::vector<int> seats, Round before) {
  if (rounds_.size() < before)
    return violated(text("a world begins after ", before, " rounds, ", rounds(), " were seen"));
  rounds_.resize(before);
  seats_ = std::move(seats);
  before_ = before;
  rule_.emplace(options.policy, static_cast<int>(seats_.size()), options.seed, options.full_every);
  rule_->resume_at(options.batches_before);
}

std::string CarriedOracle::sum_fault(const RoundResult& result, std::uint64_t value) const {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto elements = result.as<std::uint64_t>(static_cast<int>(b));
    const std::uint64_t wanted = result.empty() ? 0 : buckets_[b].count;
    if (elements.size() != wanted) return text("bucket ", b, " has ", elements.size(), " elements of ", wanted);
    for (std::size_t j = b == 0 ? 2 * members_ : 0; j < elements.size(); ++j) {
      if (elements[j] != Payload::element(value, b, j)) return text("element ", j, " of bucket ", b, " is wrong");
    }
  }
  return {};
}

std::string CarriedOracle::header_fault(const RoundResult& result, const Seen& seen,
                                        const std::vector<std::uint64_t>& before) const {
  RoundHeader want(static_cast<int>(seats_.size()));
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    const auto m = static_cast<std::size_t>(seats_[seat]);
    Round oldest = RoundHeader::kNoBase;
    for (std::uint64_t deposit = before[m]; deposit < seen.taken[m]; ++deposit) {
      oldest = std::min(oldest, bases_[m][deposit]);
      want.sum_of_bases += bases_[m][deposit];
      want.samples += samples_of(deposit);
      ++want.batches;
    }
    want.oldest_base = std::min(want.oldest_base, oldest);
    if (oldest != RoundHeader::kNoBase)
      (oldest == result.round ? want.fresh : want.stale).insert(static_cast<int>(seat));
  }
  const RoundHeader& header = *result.header;
  if (header.batches != want.batches || header.samples != want.samples || header.oldest_base != want.oldest_base ||
      header.sum_of_bases != want.sum_of_bases) {
    return text("says ", header.batches, " batches, ", header.samples, " samples, oldest base ", header.oldest_base,
                ", sum of bases ", header.sum_of_bases, "; it holds ", want.batches, ", ", want.samples, ", ",
                want.oldest_base, ", ", want.sum_of_bases);
  }
  if (!(header.fresh == want.fresh) || !(header.stale == want.stale)) return "names other contributors";
  if (header.max_staleness(result.round) > max_lag_) {
    return text("holds a deposit of staleness ", header.max_staleness(result.round), ", max_lag ", max_lag_);
  }
  return {};
}

void CarriedOracle::see(const RoundResult& result, const IntegerModel& model) {
  std::vector<std::uint64_t> before(members_);
  if (!rounds_.empty()) before = rounds_.back().taken;
  Seen seen{.header = *result.header, .policy = result.policy, .buckets = {}, .taken = before, .model = model};
  for (const auto& bucket : result.buckets) seen.buckets.emplace_back(bucket.begin(), bucket.end());
  std::uint64_t value = 0;
  for (std::size_t m = 0; m < members_ && !result.empty(); ++m) {
    const std::uint64_t count = result.as<std::uint64_t>(0)[2 * m];
    std::uint64_t numbers = 0;
    if (before[m] + count > bases_[m].size()) {
      return violated(text("round ", result.round, " holds ", count, " deposits of member ", m, " after ", before[m],
                           ", of ", bases_[m].size()));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      numbers += before[m] + i + 1;
      value += random_bits(seed_, m, before[m] + i);
    }
    if (numbers != result.as<std::uint64_t>(0)[2 * m + 1]) {
      return violated(text("round ", result.round, " does not hold the next ", count, " deposits of member ", m,
                           " after ", before[m]));
    }
    seen.taken[m] += count;
  }
  if (std::string fault = sum_fault(result, value); !fault.empty()) {
    return violated(text("round ", result.round, ": ", fault));
  }
  if (std::string fault = header_fault(result, seen, before); !fault.empty()) {
    return violated(text("the header of round ", result.round, " ", fault));
  }
  if (!(rule_->current() == result.policy)) {
    return violated(text("round ", result.round, " has policy ", result.policy.to_string(),
                         "; from the headers follows ", rule_->current().to_string()));
  }
  rule_->advance(seen.header);
  seen.batches = batches_before(result.round) + seen.header.batches;
  full_rounds_ += seen.policy.kind == Policy::Kind::full;
  ++finding_.rounds;
  rounds_.push_back(std::move(seen));
}

void CarriedOracle::handed_over(int member, const RoundResult& result, const IntegerModel& model) {
  Round& handed = handed_[static_cast<std::size_t>(member)];
  if (result.round != handed) {
    return violated(text("member ", member, " is handed round ", result.round, " after ", handed, " rounds"));
  }
  ++handed;
  if (result.round > rounds_.size())
    return violated(text("round ", result.round, " comes after ", rounds(), " rounds"));
  if (result.round == rounds_.size()) see(result, model);
  if (finding_.violation) return;
  const Seen& seen = rounds_[result.round];
  if (!(seen.header == *result.header) || !(seen.policy == result.policy)) {
    return violated(text("the header of round ", result.round, " on member ", member, " is another"));
  }
  for (std::size_t b = 0; b < seen.buckets.size(); ++b) {
    if (!std::ranges::equal(seen.buckets[b], result.buckets[b])) {
      return violated(text("round ", result.round, " on member ", member, " has another sum"));
    }
  }
  if (!(seen.model == model)) violated(text("member ", member, " has another replica after round ", result.round));
}

void CarriedOracle::ended(const std::vector<int>& members) {
  for (const int member : members) {
    const auto m = static_cast<std::size_t>(member);
    const std::uint64_t taken = rounds_.empty() ? 0 : rounds_.back().taken[m];
    if (taken != bases_[m].size()) {
      violated(text("member ", member, " made ", bases_[m].size(), " deposits, and results hold ", taken));
    }
    if (handed_[m] != rounds_.size()) {
      violated(text("member ", member, " ends after ", handed_[m], " of ", rounds(), " rounds"));
    }
  }
}

}  // namespace stretto
