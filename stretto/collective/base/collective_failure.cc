#include "stretto/collective/base/collective_failure.h"

#include <algorithm>
#include <utility>

#include "stretto/engine/driver.h"

namespace stretto {
namespace {

/// The last control channel but the engine's: note is code and rank, head the message.
constexpr std::uint16_t kFailed = kDescriptionChannel - 1;

constexpr auto kLastErrc = static_cast<std::uint64_t>(Errc::excluded);

std::uint64_t note_of(const Error& error) {
  return static_cast<std::uint64_t>(error.code) << 32 | static_cast<std::uint32_t>(error.rank);
}

}  // namespace

Result<std::span<std::byte>> CollectiveFailure::take_shared(std::span<const std::uint64_t> bytes, std::size_t mine,
                                                            const std::string& shape) {
  SharedArena& arena = *engine_.host().arena;
  for (std::size_t board = 0; board < bytes.size(); ++board) {
    auto region = arena.take(bytes[board], shape);
    regions_ = arena.taken();
    if (!region) {
      Error error = region.error();
      if (bytes.size() > 1) error.message += text("; for each of ", bytes.size(), " boards");
      return error;
    }
    if (board == mine) region_ = std::move(*region);
  }
  return region_.bytes();
}

void CollectiveFailure::fail_everywhere(Driver& driver, const Error& why) {
  {
    MutexLock lock(mutex_);
    abort_error_ = why;
  }
  abort_wanted_.store(true, std::memory_order_release);
  driver.notify();
}

void CollectiveFailure::abort(Driver& driver, const Error& why) {
  fail_everywhere(driver, why);
  driver.wait([&] { return failed() || engine_.frozen(); }, driver.deadline(std::chrono::seconds(5)));
}

std::optional<Error> CollectiveFailure::error() const {
  if (!failed()) return std::nullopt;
  MutexLock lock(mutex_);
  return error_;
}

bool CollectiveFailure::agreed() {
  if (failed_.load(std::memory_order_relaxed)) return false;
  const SharedArena* arena = engine_.host().arena;
  if (arena == nullptr) return true;
  auto disagreement = arena->disagreement(regions_);
  if (disagreement) fail(std::move(*disagreement), false);
  return !disagreement;
}

bool CollectiveFailure::poll() {
  if (!agreed()) return false;
  if (!abort_wanted_.load(std::memory_order_acquire)) return true;
  std::optional<Error> why;
  {
    MutexLock lock(mutex_);
    why = abort_error_;
  }
  fail(*std::move(why), true);
  return false;
}

bool CollectiveFailure::control(const Envelope& envelope, std::span<const std::byte> head) {
  if (envelope.channel != kFailed) return false;
  const auto code = static_cast<Errc>(std::min<std::uint64_t>(envelope.note >> 32, kLastErrc));
  const auto rank = static_cast<int>(static_cast<std::uint32_t>(envelope.note));
  // The failure is passed on, so that no rank sees this one leave before it has heard why.
  if (!failed()) tell(envelope.note, head);
  fail({code, std::string(reinterpret_cast<const char*>(head.data()), head.size()), rank}, false);
  return true;
}

void CollectiveFailure::lose(const Error& reason, const std::string& what) {
  const bool unsaid = reason.code == Errc::lost_peer && !what.empty();
  fail({reason.code, unsaid ? text(what, ": ", reason.message) : reason.message, reason.rank}, true);
}

Error CollectiveFailure::unknown(int peer, const Envelope& envelope) {
  return {Errc::bad_input,
          text("rank ", peer, " has sent control message ", envelope.channel,
               ", which this collective does not know; every rank must make the same collectives in the same order"),
          peer};
}

void CollectiveFailure::tell(std::uint64_t note, std::span<const std::byte> words) {
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer != engine_.rank()) engine_.send_control(id_, peer, kFailed, 0, note, words);
  }
}

void CollectiveFailure::fail(Error error, bool tell_others) {
  if (failed_.load(std::memory_order_relaxed)) return;
  if (tell_others) {
    const bool stops = error.code == Errc::aborted && error.rank == engine_.rank();
    const std::string words =
        (stops ? text(engine_.name_of(error.rank), " stopped the job: ", error.message) : error.message)
            .substr(0, kMaxHeadBytes);
    tell(note_of(error), std::as_bytes(std::span(words)));
  }
  MutexLock lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;
  error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

}  // namespace stretto
