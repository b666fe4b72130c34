#include "stretto/collective/rounds/groups/standing_rounds.h"

#include <numeric>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {
namespace {

GroupOptions resolved(GroupOptions options, int ranks) {
  if (options.group_size == 0) options.group_size = ranks == 1 ? 1 : default_group_size(ranks);
  if (options.full_every == 0) throw UsageError("a full round every 0 rounds: expected a number from 1, such as 10");
  if (options.quorum < 0 || options.quorum > ranks) {
    throw UsageError(text("a quorum of ", options.quorum, " of ", ranks, " ranks: expected 1 to ", ranks,
                          ", or 0, where the first rank starts a round"));
  }
  if (options.moves != nullptr && (options.keep_own || options.late_sum == LateSum::own)) {
    throw UsageError("models that move with their group's mean, and keep_own or sums of the own iteration: use one");
  }
  return options;
}

std::string describe(const std::vector<BucketSpec>& buckets, const GroupOptions& options, const std::string& how) {
  std::string out = text("group allreduce of ", buckets.size(), " buckets in groups of ", options.group_size,
                         options.order == GroupOrder::fixed ? ", fixed" : "", ", full every ", options.full_every,
                         ", quorum ", options.quorum, options.late == LateRank::jumps ? ", late ranks jump" : "",
                         options.late_sum == LateSum::own ? ", sums of the own iteration" : "",
                         options.keep_own ? ", keeping own models" : "",
                         options.moves != nullptr ? ", models that move" : "", ", ", how);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    out += text("\nbucket ", i, ": ", buckets[i].count, ' ', name_of(buckets[i].type));
  }
  return out;
}

}  // namespace

StandingRounds::StandingRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options,
                               const std::string& how, std::uint16_t ask)
    : RoundsBase(engine, buckets, describe(buckets, resolved(options, engine.size()), how), ask),
      options_(resolved(options, engine.size())),
      groups_(engine.size(), options_.group_size, options_.order) {}

std::vector<int> StandingRounds::members(Round round, bool full) const {
  if (!full) return groups_.members(engine_.rank(), round);
  std::vector<int> all(static_cast<std::size_t>(engine_.size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void StandingRounds::put_on_top(Contribution& model, std::span<const std::span<const std::byte>> stands,
                                std::span<const std::span<const std::byte>> base) const {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const auto moved = model.bucket(static_cast<int>(i));
    const auto from = defect(Defect::group_late_takes_sum) ? std::span<const std::byte>(moved) : base[i];
    options_.moves->put_on(buckets_[i].type, moved, stands[i], from);
    if (defect(Defect::group_moved_twice)) options_.moves->put_on(buckets_[i].type, moved, moved, base[i]);
  }
}

std::string StandingRounds::who_is_missing(Driver& driver, Duration timeout) {
  const Round open = this->open();
  return RoundsBase::who_is_missing(driver, timeout, open, text("round ", open, full(open) ? " (full)" : ""));
}

}  // namespace stretto
