#include "python/binding/py_comparison.h"

#include <nanobind/stl/string.h>

#include "stretto/imbalance/spec.h"
#include "stretto/train/recipes/recipes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {

void bind_comparison(nb::module_& module) {
  module.def(
      "read_imbalance",
      [](const std::string& written, int ranks) { return Imbalance::parse(written, ranks).to_string(); }, "written"_a,
      "ranks"_a, "Which of so many ranks are slow, as STRETTO_IMBALANCE says it. Raises UsageError for another text.");
  module.def(
      "require_algorithm", [](const std::string& name, int ranks) { parse_algorithm(name, ranks); }, "name"_a,
      "ranks"_a, "Raises UsageError for what is no algorithm of so many ranks.");
}

}  // namespace stretto::python
