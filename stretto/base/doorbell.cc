#include "stretto/base/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

namespace stretto {

namespace {

/// `timeout` from now, or null where that is thirty years and more.
const timespec* deadline(Duration timeout, timespec& until) {
  const std::int64_t whole = timeout.count() / 1'000'000'000;
  if (whole > 1'000'000'000) return nullptr;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const std::int64_t nanoseconds = until.tv_nsec + timeout.count() % 1'000'000'000;
  until.tv_sec += static_cast<time_t>(whole + nanoseconds / 1'000'000'000);
  until.tv_nsec = nanoseconds % 1'000'000'000;
  return &until;
}

std::uint32_t* address_of(std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<std::uint32_t*>(&word);
}

/// As the kernel wants it (linux/futex.h of 5.16).
struct WaitVector {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};
constexpr std::uint32_t kWord32 = 2;

}  // namespace

void futex_sleep(FutexWait on, std::uint32_t bits, Duration timeout, bool shared) {
  if (timeout <= Duration::zero()) return;
  timespec until{};
  const int op = FUTEX_WAIT_BITSET | (shared ? 0 : FUTEX_PRIVATE_FLAG);
  syscall(SYS_futex, address_of(*on.word), op, on.seen, deadline(timeout, until), nullptr, bits);
}

void futex_sleep(FutexWait first, FutexWait second, Duration timeout) {
  if (timeout <= Duration::zero()) return;
  timespec until{};
  const auto entry = [](const FutexWait& on) {
    return WaitVector{on.seen, reinterpret_cast<std::uintptr_t>(address_of(*on.word)), kWord32, 0};
  };
  const WaitVector both[] = {entry(first), entry(second)};
  syscall(SYS_futex_waitv, both, 2, 0, deadline(timeout, until), CLOCK_MONOTONIC);
}

bool futex_can_sleep_on_two() {
  // Without words it is refused in its own way where it is known.
  static const bool kCan = syscall(SYS_futex_waitv, nullptr, 0, 0, nullptr, CLOCK_MONOTONIC) != 0 && errno == EINVAL;
  return kCan;
}

void futex_wake(std::atomic<std::uint32_t>& word, std::uint32_t bits, bool shared) {
  const int op = FUTEX_WAKE_BITSET | (shared ? 0 : FUTEX_PRIVATE_FLAG);
  syscall(SYS_futex, address_of(word), op, INT_MAX, nullptr, nullptr, bits);
}

void Doorbell::ring() {
  words_->rings.fetch_add(1, std::memory_order_seq_cst);
  // Pairs with the store in set_answerable(): either this load sees the sleeper, or the sleeper sees the new count.
  const std::uint32_t sleeper = words_->sleeper.load(std::memory_order_seq_cst);
  if (sleeper != 0) futex_wake(words_->rings, sleeper, shared_);
}

void Doorbell::sleep(std::uint32_t seen, Sleeper who, Duration timeout, FutexWait or_on) {
  set_answerable(who);
  if (or_on.word == nullptr) {
    park(seen, who, timeout);
  } else if (rings() == seen) {
    futex_sleep({&words_->rings, seen}, or_on, timeout);
  }
  clear_answerable();
}

void Doorbell::park(std::uint32_t seen, Sleeper who, Duration timeout) {
  if (rings() == seen) futex_sleep({&words_->rings, seen}, static_cast<std::uint32_t>(who), timeout, shared_);
}

}  // namespace stretto
