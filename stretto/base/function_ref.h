#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace stretto {

template <class Signature>
class FunctionRef;

/// A reference to a callable that lives at least as long as the call it is passed to. Never stored. Two words, no
/// allocation: what a function takes that calls its argument before it returns.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  /// From a function, a lambda or another callable. Not explicit: it stands where the argument does.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor, bugprone-forwarding-reference-overload)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  /// Calls it.
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace stretto
