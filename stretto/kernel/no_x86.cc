#include "stretto/kernel/kernels.h"

namespace stretto {

std::vector<const Kernels*> special_kernels() {
  return {};
}

}  // namespace stretto
