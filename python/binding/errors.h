#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "python/binding/interpreter.h"

namespace stretto::python {

/// An exception of Python on its way through C++, which must be able to say what it is without the interpreter's lock.
/// The binding raises the exception of Python again where C++ ends.
class Raised : public std::runtime_error {
 public:
  /// With the lock held. what() is "ValueError: what it says".
  explicit Raised(nanobind::python_error&& error);
  std::exception_ptr cause() const { return cause_; }

 private:
  std::exception_ptr cause_;  // a nanobind::python_error, which takes the lock where it ends
};

/// Runs `call` with the interpreter's lock held; what it raises is thrown as Raised.
template <class Call>
auto with_python(Call call) {
  return call_locked([&call] {
    try {
      return call();
    } catch (nanobind::python_error& error) {
      throw Raised(std::move(error));
    }
  });
}

/// Raises KeyboardInterrupt, or what another handler raises, where a signal has come.
void look_for_signals();

/// Has the library's errors come as the exceptions of stretto._errors, with the rank that they are about.
void translate_errors(nanobind::module_& module);

}  // namespace stretto::python
