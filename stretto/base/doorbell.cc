#include "stretto/base/doorbell.h"

namespace stretto {

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
