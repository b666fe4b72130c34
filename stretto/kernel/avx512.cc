#include "stretto/kernel/kernel_source.h"

namespace stretto {

const Kernels kAvx512Kernels = STRETTO_KERNELS("avx512");

}  // namespace stretto
