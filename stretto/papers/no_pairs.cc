#include "stretto/papers/baselines.h"

namespace stretto {

Baselines pair_baselines() {
  return {};
}

}  // namespace stretto
