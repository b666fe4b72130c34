#pragma once

#include <vector>

#include "stretto/kernel/kernel_table.h"

namespace stretto {

/// The kernels beside kPlainKernels that this processor can run, the fastest last. Defined in x86.cc or no_x86.cc, by
/// the processor that is built for.
std::vector<const Kernels*> special_kernels();

}  // namespace stretto
