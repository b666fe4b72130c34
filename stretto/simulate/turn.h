#pragma once

#include <atomic>
#include <cstdint>

#include "stretto/base/clock.h"
#include "stretto/base/futex.h"

namespace stretto {

/// A turn that one thread gives and one taker, asleep until then, takes. The turn of std::binary_semaphore yields the
/// processor many times first: where others compute on that core, each time lasts as long as their slices of it.
class Turn {
 public:
  void give() {
    word_.store(1, std::memory_order_release);  // with the exchange of take(): what the giver did before is seen
    futex_wake(word_, 1, /*shared=*/false);
  }
  void take() {
    while (word_.exchange(0, std::memory_order_acquire) == 0) {
      futex_sleep({&word_, 0}, 1, Duration::max(), /*shared=*/false);
    }
  }

 private:
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace stretto
