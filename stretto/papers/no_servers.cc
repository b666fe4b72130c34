#include "stretto/papers/baselines.h"

namespace stretto {

Baselines server_baselines() {
  return {};
}

}  // namespace stretto
