#include "stretto/base/idleness.h"

#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/cores.h"

namespace stretto {

Idleness::Reading Idleness::read_clocks() {
  return {SteadyClock().now().since_start, thread_time()};
}

bool Idleness::idles() {
  const Reading before = std::exchange(last_, read_());
  return 2 * (last_.ran - before.ran) < last_.wall - before.wall;
}

}  // namespace stretto
