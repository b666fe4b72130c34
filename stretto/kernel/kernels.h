#pragma once

#include <span>
#include <vector>

#include "stretto/kernel/kernel_table.h"

namespace stretto {

/// The kernels that can run on this processor, the fastest last; "plain" is always among them.
std::span<const Kernels* const> available_kernels();

/// The fastest of them, or the one that the environment variable STRETTO_KERNELS names; looked up once in a process.
/// Throws UsageError if the kernel named cannot run here.
const Kernels& kernels_in_use();

/// The kernels beside kPlainKernels that this processor can run, the fastest last. Defined in x86.cc or no_x86.cc, by
/// the processor that is built for.
std::vector<const Kernels*> special_kernels();

}  // namespace stretto
