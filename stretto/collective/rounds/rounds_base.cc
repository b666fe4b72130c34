#include "stretto/collective/rounds/rounds_base.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace stretto {
namespace {

Inquiry::Answer to_bytes(const ProtocolState& state) {
  Inquiry::Answer bytes(sizeof state);
  std::memcpy(bytes.data(), &state, sizeof state);
  return bytes;
}

}  // namespace

RoundsBase::RoundsBase(Engine& engine, std::vector<BucketSpec> buckets, std::string description, std::uint16_t ask)
    : CollectiveBase(engine),
      buckets_(std::move(buckets)),
      description_(std::move(description)),
      inquiry_(engine, ask, [this](std::uint64_t) { return to_bytes(state()); }) {}

void RoundsBase::enroll() {
  CollectiveBase::enroll(description_);
  inquiry_.enroll(id_);
}

void RoundsBase::enroll_client() {
  CollectiveBase::enroll_client(description_);
  inquiry_.enroll(id_);
}

bool RoundsBase::poll_requests() {
  if (!failure_.poll()) return false;
  inquiry_.poll();
  return true;
}

std::string RoundsBase::who_is_missing(Driver& driver, Duration timeout, Round open, const std::string& round) {
  const auto answers = inquiry_.ask_others(driver, timeout, open, [this] { return failed(); });
  std::vector<Duration> silent(static_cast<std::size_t>(engine_.size()));
  const auto read = [&] {
    for (int peer = 0; peer < engine_.size(); ++peer) {
      silent[static_cast<std::size_t>(peer)] = engine_.clock().now() - engine_.last_heard(peer);
    }
    return true;
  };
  driver.wait_driving(read, engine_.clock().now());
  std::string missing;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer == engine_.rank()) continue;
    const auto& answer = answers[static_cast<std::size_t>(peer < engine_.rank() ? peer : peer - 1)];
    ProtocolState state;
    const bool answered = answer && answer->size() == sizeof state;
    if (answered) std::memcpy(&state, answer->data(), sizeof state);
    if (answered && (state.drained || state.waiting || state.complete > open)) continue;
    missing += text(missing.empty() ? "" : ", ", engine_.name_of(peer));
    if (!answered) {
      missing += text(" (silent, last seen ", std::lround(seconds(silent[static_cast<std::size_t>(peer)])), " s ago)");
    } else {
      missing += state.complete < open ? text(" (at round ", state.complete, ")") : std::string(" (computing)");
    }
  }
  if (missing.empty()) missing = "nobody: all ranks have come";
  return text(round, " waits for ", missing);
}

}  // namespace stretto
