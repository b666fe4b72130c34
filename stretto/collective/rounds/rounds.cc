#include "stretto/collective/rounds/rounds.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/collective/rounds/activated_rounds.h"

namespace stretto {
namespace {

std::string words_for(const std::vector<BucketSpec>& buckets, const PartialOptions& options, const std::string& how) {
  std::uint64_t elements = 0;
  for (const BucketSpec& bucket : buckets) elements += bucket.count;
  std::string words =
      text("partial allreduce of ", buckets.size(), buckets.size() == 1 ? " bucket of " : " buckets of ", elements, ' ',
           name_of(buckets.front().type), " by ", name_of(options.op), ", ", options.policy.to_string(), ", max_lag ",
           options.max_lag, ", ", how);
  if (options.full_every != 0) words += text(", full every ", options.full_every);
  if (options.order == SumOrder::arrival) words += ", in the order of arrival";
  if (options.policy.kind == Policy::Kind::majority) words += text(", seed ", options.seed);
  return words;
}

/// The options and buckets that words_for() leaves out, one item a line (base/description.h). Equal buckets in a row
/// are one item.
std::string items_of(const std::vector<BucketSpec>& buckets, const PartialOptions& options) {
  std::string items = text("\nbatches before round 0: ", options.batches_before,
                           "\ndelivery: ", options.delivery == Delivery::every ? "every" : "latest");
  if (options.members_change) items += text("\nmembers may change, after ", options.rounds_before, " rounds");
  if (options.buckets_per_round != 0) items += text("\nbuckets in a round: ", options.buckets_per_round);
  for (std::size_t first = 0; first < buckets.size();) {
    std::size_t end = first + 1;
    while (end < buckets.size() && buckets[end] == buckets[first]) ++end;
    items += end == first + 1 ? text("\nbucket ", first) : text("\nbuckets ", first, " to ", end - 1);
    items += text(": ", buckets[first].count, ' ', name_of(buckets[first].type));
    first = end;
  }
  return items;
}

}  // namespace

PolicyRule rule_of(const PartialOptions& options, int ranks) {
  PolicyRule rule(options.policy, ranks, options.seed, options.full_every);
  rule.resume_at(options.batches_before);
  return rule;
}

Rounds::Rounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options, const std::string& how)
    : RoundsBase(engine, buckets, words_for(buckets, options, how) + items_of(buckets, options), kAfterCounterWords),
      options_(options) {}

std::string Rounds::who_is_missing(Driver& driver, Duration timeout) {
  const Round open = complete();
  return RoundsBase::who_is_missing(
      driver, timeout, open, text("round ", options_.rounds_before + open, " (", open_policy(open).to_string(), ")"));
}

Round Rounds::counted() {
  // In this order: where the engine is not frozen yet, who freezes it counts this many rounds, or more.
  const Round now = complete();
  if (!engine_.frozen() || defect(Defect::carried_takes_uncounted)) return now;
  Round counted = kUncounted;
  if (counted_.compare_exchange_strong(counted, complete(), std::memory_order_seq_cst)) counted = counted_.load();
  return counted;
}

Carried Rounds::take_out(Round from) const {
  STRETTO_CHECK(false, "rounds of each bucket carry nothing, as from round ", from);
}

const ResultSlot* Rounds::kept(Round /*round*/) {
  return nullptr;
}

std::optional<RoundHeader> Rounds::kept_header(Round /*round*/) {
  return std::nullopt;
}

Carried::Deposit copy_of(const Contribution& deposit, const ContributionFacts& facts) {
  Carried::Deposit copy{facts, {}};
  for (int i = 0; i < deposit.num_buckets(); ++i) {
    const auto bucket = deposit.bucket(i);
    copy.buckets.emplace_back(bucket.begin(), bucket.end());
  }
  return copy;
}

}  // namespace stretto
