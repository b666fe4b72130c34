#include "stretto/kernel/special.h"

namespace stretto {

std::vector<const Kernels*> special_kernels() {
  return {};
}

}  // namespace stretto
