#include "stretto/papers/baselines.h"

namespace stretto {

Baselines neighbour_baselines() {
  return {};
}

}  // namespace stretto
