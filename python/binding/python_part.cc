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

std::string PythonPart::ask_bytes(Method method) const {
  return with_python([&] {
    const auto bytes = nb::cast<nb::bytes>(call(method));
    return std::string(bytes.c_str(), bytes.size());
  });
}

void PythonPart::give_bytes(Method method, const std::string& bytes) const {
  with_python([&] { call(method, nb::bytes(bytes.data(), bytes.size())); });
}

nb::object PythonPart::object() const {
  nb::object object = now_ ? nb::borrow(now_) : weak_();
  if (object.is_none()) throw UsageError("an optimizer is gone that was not finished: expected finish(), or join()");
  return object;
}

}  // namespace stretto::python
