#include "stretto/papers/baselines.h"

namespace stretto {

Baselines ordering_baselines() {
  return {};
}

}  // namespace stretto
