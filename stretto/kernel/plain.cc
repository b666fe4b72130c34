#include "stretto/kernel/kernel_source.h"

namespace stretto {

const Kernels kPlainKernels = STRETTO_KERNELS("plain");

}  // namespace stretto
