#include "stretto/base/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace stretto {
namespace {

std::uint32_t* address_of(std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<std::uint32_t*>(&word);
}

}  // namespace

void Doorbell::ring() {
  words_->rings.fetch_add(1, std::memory_order_seq_cst);
  // Pairs with the store in set_answerable(): either we see the sleeper, or it sees our count.
  const std::uint32_t sleeper = words_->sleeper.load(std::memory_order_seq_cst);
  if (sleeper == 0) return;
  const int op = FUTEX_WAKE_BITSET | (shared_ ? 0 : FUTEX_PRIVATE_FLAG);
  syscall(SYS_futex, address_of(words_->rings), op, INT_MAX, nullptr, nullptr, sleeper);
}

void Doorbell::sleep(std::uint32_t seen, Sleeper who, Duration timeout) {
  set_answerable(who);
  park(seen, who, timeout);
  clear_answerable();
}

void Doorbell::park(std::uint32_t seen, Sleeper who, Duration timeout) {
  if (rings() != seen || timeout <= Duration::zero()) return;
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const std::int64_t total = until.tv_nsec + timeout.count() % 1'000'000'000;
  const std::int64_t whole = timeout.count() / 1'000'000'000 + total / 1'000'000'000;
  const bool forever = whole > 1'000'000'000;  // thirty years
  until.tv_sec += static_cast<time_t>(whole);
  until.tv_nsec = total % 1'000'000'000;
  const int op = FUTEX_WAIT_BITSET | (shared_ ? 0 : FUTEX_PRIVATE_FLAG);
  syscall(SYS_futex, address_of(words_->rings), op, seen, forever ? nullptr : &until, nullptr,
          static_cast<std::uint32_t>(who));
}

}  // namespace stretto
