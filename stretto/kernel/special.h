#pragma once

#include <vector>

#include "stretto/kernel/kernel_table.h"

namespace stretto {

/// Those beside kPlainKernels that this processor can run, the fastest last. x86.cc or no_x86.cc, by what is built for.
std::vector<const Kernels*> special_kernels();

}  // namespace stretto
