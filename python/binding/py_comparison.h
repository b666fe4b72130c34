#pragma once

#include <nanobind/nanobind.h>

namespace stretto::python {

/// What stretto.compare() asks before it starts anything.
void bind_comparison(nanobind::module_& module);

}  // namespace stretto::python
