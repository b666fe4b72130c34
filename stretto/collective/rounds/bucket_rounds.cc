#include "stretto/collective/rounds/bucket_rounds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"

namespace stretto {

BucketRounds::BucketRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options,
                           std::vector<std::unique_ptr<Rounds>> parts)
    : Rounds(engine, std::move(buckets), options, "bucket by bucket"),
      parts_(std::move(parts)),
      contributions_(static_cast<std::size_t>(parts_.front()->num_contribution_sets())),
      filling_(parts_.size()) {
  slot_.buckets.resize(buckets_.size());
  slot_.headers.resize(buckets_.size());
}

void BucketRounds::withdraw() {
  for (const auto& part : parts_) part->withdraw();
}

Contribution& BucketRounds::acquire() {
  for (std::size_t p = 0; p < parts_.size(); ++p) filling_[p] = &parts_[p]->acquire();
  auto& contribution = contributions_[static_cast<std::size_t>(filling_.front()->index())];
  if (contribution == nullptr) {
    contribution =
        std::make_unique<Contribution>(std::vector<std::span<std::byte>>(buckets_.size()), filling_.front()->index());
  }
  int bucket = 0;
  for (Contribution* part : filling_) {
    for (int i = 0; i < part->num_buckets(); ++i) contribution->point_at(bucket++, part->bucket(i));
  }
  contribution->facts = {};
  contribution->ready.store(0, std::memory_order_relaxed);
  return *contribution;
}

DepositSteps BucketRounds::deposit(Contribution& contribution) {
  deposited_ = 0;
  deposit_ready(contribution);
  return {};
}

void BucketRounds::deposit_ready(Contribution& contribution) {
  const int ready = contribution.ready.load(std::memory_order_relaxed);
  int end = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    end += filling_[p]->num_buckets();
    if (end > ready) return;
    if (p < deposited_) continue;
    filling_[p]->facts = contribution.facts;
    filling_[p]->ready.store(filling_[p]->num_buckets(), std::memory_order_relaxed);
    DepositSteps steps = parts_[p]->deposit(*filling_[p]);
    while (!steps.step()) {
    }
    deposited_ = p + 1;
  }
}

bool BucketRounds::deposit_pending() const {
  return std::ranges::any_of(parts_, [](const auto& part) { return part->deposit_pending(); });
}

Round BucketRounds::complete() const {
  Round least = first().complete();
  if (defect(Defect::bucket_first_decides)) return least;
  for (const auto& part : parts_) least = std::min(least, part->complete());
  return least;
}

const ResultSlot& BucketRounds::result(Round round) {
  std::size_t bucket = 0;
  for (const auto& part : parts_) {
    const ResultSlot& slot = part->result(round);
    if (bucket == 0) {
      slot_.round = round;
      slot_.policy = slot.policy;
      slot_.header = slot.header;
    }
    for (const std::span<const std::byte> sum : slot.buckets) {
      slot_.buckets[bucket] = sum;
      slot_.headers[bucket++] = &slot.header;
    }
  }
  return slot_;
}

void BucketRounds::set_arrived(Round round) {
  // A part may be ahead: there the round has gone on without this rank.
  for (const auto& part : parts_) {
    if (part->complete() <= round) part->set_arrived(round);
  }
}

bool BucketRounds::set_handed(Round handed) {
  bool held = false;
  for (const auto& part : parts_) held |= part->set_handed(handed);
  return held;
}

void BucketRounds::set_drained() {
  for (const auto& part : parts_) part->set_drained();
}

void BucketRounds::set_ticket(Round ticket) {
  for (const auto& part : parts_) part->set_ticket(ticket);
}

bool BucketRounds::stopped() const {
  return std::ranges::all_of(parts_, [](const auto& part) { return part->stopped(); });
}

bool BucketRounds::over() const {
  return std::ranges::all_of(parts_, [](const auto& part) { return part->over(); });
}

std::optional<TimePoint> BucketRounds::take_passive_since() {
  const auto since = first().take_passive_since();
  for (std::size_t p = 1; p < parts_.size(); ++p) (void)parts_[p]->take_passive_since();
  return since;
}

void BucketRounds::abort(Driver& driver, const Error& why) {
  for (const auto& part : parts_) part->abort(driver, why);
}

bool BucketRounds::failed() const {
  return std::ranges::any_of(parts_, [](const auto& part) { return part->failed(); });
}

std::optional<Error> BucketRounds::failure() const {
  for (const auto& part : parts_) {
    if (auto error = part->failure()) return error;
  }
  return std::nullopt;
}

std::string BucketRounds::who_is_missing(Driver& driver, Duration timeout) {
  const auto last = std::ranges::min_element(parts_, {}, [](const auto& part) { return part->complete(); });
  return (*last)->who_is_missing(driver, timeout);
}

/// That of the first part, with what all have come to.
ProtocolState BucketRounds::state() const {
  ProtocolState state = first().state();
  for (const auto& part : parts_) {
    const ProtocolState own = part->state();
    state.complete = std::min(state.complete, own.complete);
    state.joined = std::min(state.joined, own.joined);
    state.activated = std::min(state.activated, own.activated);
  }
  return state;
}

std::uint64_t BucketRounds::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->memory_bytes();
  return bytes;
}

}  // namespace stretto
