#include "python/binding/memory.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto bytes = nb::inst_ptr<Memory>(nb::handle(self))->bytes();
  return PyBuffer_FillInfo(view, self, bytes.data(), static_cast<Py_ssize_t>(bytes.size()), /*readonly=*/0, flags);
}

PyType_Slot kSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(kSlots), "Bytes of the library, as a writable buffer.")
      .def("__len__", [](const Memory& memory) { return memory.bytes().size(); });
}

}  // namespace stretto::python
