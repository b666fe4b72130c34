#include "python/binding/python_part.h"

#include "stretto/base/error.h"

namespace nb = nanobind;

namespace stretto::python {

PythonPart::PythonPart(ReplicaObject object) : weak_(nb::weakref(object)) {
  const nb::handle type = object.type();
  std::ranges::transform(kMethods, methods_.begin(), [&](std::string_view name) -> nb::object {
    return type.attr(nb::str(name.data(), name.size()));
  });
}

nb::object PythonPart::object() const {
  nb::object object = now_ ? nb::borrow(now_) : weak_();
  if (object.is_none()) throw UsageError("an optimizer is gone that was not finished: expected finish(), or join()");
  return object;
}

}  // namespace stretto::python
