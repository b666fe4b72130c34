#include "stretto/engine/interruptible_driver.h"

#include <algorithm>

namespace stretto {

bool InterruptibleDriver::drive(FunctionRef<bool()> done, TimePoint deadline, Looking looking,
                                std::atomic<std::uint32_t>* or_on) {
  for (;;) {
    if (driver_.drive(done, std::min(deadline, look_.due()), looking, or_on)) return true;
    const TimePoint now = clock().now();
    look_.at(now);
    if (now >= deadline) return false;
  }
}

}  // namespace stretto
