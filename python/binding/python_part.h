#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "python/binding/interpreter.h"

namespace stretto::python {

/// The methods that are called of Python: those of the protocol Replica in stretto/_replica.py, which says what each
/// does.
inline constexpr auto kMethods = std::to_array<std::string_view>({
    "arrived",
    "attach",
    "collect",
    "counted",
    "counts",
    "describe_buffers",
    "describe_state",
    "detach",
    "floating_buffers",
    "forget",
    "hear_ranks",
    "members",
    "moments",
    "options",
    "others",
    "round",
    "set_shared_state",
    "set_state",
    "sgd_rule",
    "share_buffers",
    "shared_state",
    "show_weights",
    "state",
    "state_arrays",
    "state_content",
    "step",
    "take",
    "tell",
    "tell_ranks",
});

/// One of them. Another name does not compile.
class Method {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a call says which by its name
  consteval Method(const char* name)
      : index_(static_cast<std::size_t>(std::ranges::find(kMethods, name) - kMethods.begin())) {
    (void)kMethods.at(index_);
  }
  std::size_t index() const { return index_; }

 private:
  std::size_t index_;
};

/// A Replica of Python as an argument of the binding.
struct ReplicaObject : nanobind::handle {};

/// The object of Python whose methods do what only Python can. Each call into the binding brings it along, and nothing
/// here keeps it alive. Another optimizer's end may apply rounds of this one: for that there is a weak reference.
class PythonPart {
 public:
  /// With the interpreter's lock held, as for all of these but ask(). Raises AttributeError where the class of `object`
  /// lacks a method.
  explicit PythonPart(ReplicaObject object);
  void enter(ReplicaObject object) { now_ = object; }
  void leave() { now_ = nanobind::handle(); }

  /// Throws UsageError where the object is gone.
  template <class... Arguments>
  nanobind::object call(Method method, const Arguments&... arguments) const {
    return methods_[method.index()](object(), arguments...);
  }
  /// The same, by a thread that need not hold the lock. What the method raises is thrown as Raised.
  template <class Result = void, class... Arguments>
  Result ask(Method method, const Arguments&... arguments) const {
    return with_python([&] {
      const nanobind::object result = call(method, arguments...);
      if constexpr (!std::is_void_v<Result>) return nanobind::cast<Result>(result);
    });
  }

  /// ask() of a method that returns bytes, or takes them.
  std::string ask_bytes(Method method) const;
  void give_bytes(Method method, const std::string& bytes) const;

 private:
  nanobind::object object() const;

  nanobind::object weak_;
  nanobind::handle now_;                                   // while a call lasts
  std::array<nanobind::object, kMethods.size()> methods_;  // functions of the object's class
};

}  // namespace stretto::python

template <>
struct nanobind::detail::type_caster<stretto::python::ReplicaObject> {
  NB_TYPE_CASTER(stretto::python::ReplicaObject, const_name("stretto._replica.Replica"))
  bool from_python(handle object, std::uint8_t, cleanup_list*) noexcept {
    value = {object};
    return true;
  }
};
