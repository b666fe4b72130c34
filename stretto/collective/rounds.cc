#include "stretto/collective/rounds.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace stretto {
namespace {

std::span<const std::byte> bytes_of(const std::string& string) {
  return {reinterpret_cast<const std::byte*>(string.data()), std::min<std::size_t>(string.size(), kMaxHeadBytes)};
}

}  // namespace

PolicyRule rule_of(const PartialOptions& options, int ranks) {
  PolicyRule rule(options.policy, ranks, options.seed, options.full_every);
  rule.resume_at(options.batches_before);
  return rule;
}

Rounds::Rounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options)
    : engine_(engine), buckets_(std::move(buckets)), options_(options) {
  MutexLock lock(mutex_);
  answers_.resize(static_cast<std::size_t>(engine.size()));
}

void Rounds::request_abort(const std::string& reason) {
  {
    MutexLock lock(mutex_);
    abort_reason_ = reason;
  }
  abort_wanted_.store(true, std::memory_order_release);
}

Error Rounds::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

std::string Rounds::shape(const std::string& how) const {
  std::uint64_t elements = 0;
  for (const BucketSpec& bucket : buckets_) elements += bucket.count;
  std::string words =
      text("partial allreduce of ", buckets_.size(), buckets_.size() == 1 ? " bucket of " : " buckets of ", elements,
           ' ', name_of(buckets_.front().type), " by ", name_of(options_.op), ", ", options_.policy.to_string(),
           ", max_lag ", options_.max_lag, ", ", how);
  if (options_.full_every != 0) words += text(", full every ", options_.full_every);
  if (options_.order == SumOrder::arrival) words += ", in the order of arrival";
  if (options_.policy.kind == Policy::Kind::majority) words += text(", seed ", options_.seed);
  return words;
}

Result<std::span<std::byte>> Rounds::take_shared(std::uint64_t bytes, const std::string& how) {
  auto memory = engine_.arena()->take(bytes, shape(how));
  regions_ = engine_.arena()->taken();
  return memory;
}

bool Rounds::poll_requests() {
  if (failed()) return false;
  if (engine_.arena() != nullptr) {
    if (auto disagreement = engine_.arena()->disagreement(regions_)) {
      fail(std::move(*disagreement), false);
      return false;
    }
  }
  if (abort_wanted_.load(std::memory_order_acquire)) {
    std::string reason;
    {
      MutexLock lock(mutex_);
      reason = abort_reason_;
    }
    fail({Errc::aborted, reason, engine_.rank()}, true);
    return false;
  }
  if (const std::uint32_t wanted = who_wanted_.load(std::memory_order_acquire); wanted != asked_) {
    asked_ = wanted;
    tell_all(kWho, wanted, {});
  }
  return true;
}

void Rounds::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  switch (envelope.channel) {
    case kAbort:
      return fail({Errc::aborted,
                   text("rank ", envelope.note,
                        " stopped the job: ", std::string(reinterpret_cast<const char*>(head.data()), head.size())),
                   static_cast<int>(envelope.note)},
                  false);
    case kWho: {
      const ProtocolState mine = state();
      std::array<std::byte, sizeof mine> bytes;
      std::memcpy(bytes.data(), &mine, sizeof mine);
      return engine_.send_control(id_, peer, kWhoAnswer, 0, envelope.note, bytes);
    }
    case kWhoAnswer: {
      MutexLock lock(mutex_);
      Answer& answer = answers_[static_cast<std::size_t>(peer)];
      if (envelope.note != asked_ || head.size() != sizeof answer.state) return;
      answer.here = true;
      std::memcpy(&answer.state, head.data(), sizeof answer.state);
      return;
    }
    default:
      // Of a rank that runs something else.
      STRETTO_CHECK(failed(), "control message ", envelope.channel, " from rank ", peer);
  }
}

void Rounds::lost(int peer, const Error& reason) {
  if (stopped()) return;
  fail({Errc::lost_peer, reason.message, peer}, true);
}

void Rounds::fail(Error error, bool tell_others) {
  if (failed()) return;
  if (tell_others) tell_all(kAbort, static_cast<std::uint64_t>(std::max(error.rank, 0)), bytes_of(error.message));
  {
    MutexLock lock(mutex_);
    failure_ = std::move(error);
  }
  failed_.store(true, std::memory_order_release);
}

void Rounds::tell_all(std::uint16_t channel, std::uint64_t note, std::span<const std::byte> head) {
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer != engine_.rank()) engine_.send_control(id_, peer, channel, 0, note, head);
  }
}

// ---- who ----

void Rounds::ask_who() {
  MutexLock lock(mutex_);
  for (auto& answer : answers_) answer = {};
  who_wanted_.fetch_add(1, std::memory_order_release);
}

Rounds::Answer Rounds::answer(int rank) const {
  MutexLock lock(mutex_);
  return answers_[static_cast<std::size_t>(rank)];
}

bool Rounds::all_answered() const {
  MutexLock lock(mutex_);
  int here = 0;
  for (const auto& answer : answers_) here += answer.here ? 1 : 0;
  return here + 1 >= static_cast<int>(answers_.size());
}

}  // namespace stretto
