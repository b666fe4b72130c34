#include "stretto/kernel/kernel_source.h"

namespace stretto {

const Kernels kAvx2Kernels = STRETTO_KERNELS("avx2");

}  // namespace stretto
