#pragma once

#include <nanobind/nanobind.h>

namespace stretto::python {

/// The functions that stretto.compare() calls before it starts anything.
void bind_comparison(nanobind::module_& module);

}  // namespace stretto::python
