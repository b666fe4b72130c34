#include <nanobind/nanobind.h>

#include "python/binding/interpreter.h"
#include "python/binding/py_collectives.h"
#include "python/binding/py_job.h"
#include "python/binding/py_loop.h"
#include "stretto/base/version.h"
#include "stretto/papers/register.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {  // NOLINT(clang-diagnostic-reserved-identifier): the macro names what Python looks for
  module.doc() = "The binding of stretto's core. Knows no Torch.";
  nb::set_leak_warnings(
      false);  // tensors of a script's own module outlive the interpreter, and with them what they view
  stretto::register_papers();
  stretto::python::translate_errors(module);
  stretto::python::bind_memory(module);
  stretto::python::bind_job(module);
  stretto::python::bind_collectives(module);
  stretto::python::bind_loop(module);
  module.def("close_interpreter", &stretto::python::close_interpreter,
             "At the exit of the process: other threads come into Python no more.");
  module.def("version", &stretto::stretto_version, "The version of the library.");
}
