#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace stretto::python {

/// At the exit of the process, called by the thread that ends the interpreter, lock held: from now on no other thread
/// goes into Python through this module. Those that are in it, or wait for the lock, have a second to come out.
///
/// An interpreter at its end gives its lock to no thread but this one. Pythons before 3.14 end the others by
/// pthread_exit(), whose way up through a destructor, of this module's or of Torch's, is std::terminate(): an exit in
/// order would become SIGABRT.
void close_interpreter();

/// Before the interpreter's lock is taken, and when what it was taken for is over. Where the interpreter is closed
/// enter_interpreter() does not return.
void enter_interpreter();
void leave_interpreter();

/// Keeps the calling thread where it is until the process is gone.
[[noreturn]] void stay();

/// The calling thread is without the interpreter's lock as long as this lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    enter_interpreter();
    PyEval_RestoreThread(state_);
    leave_interpreter();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// The calling thread has the interpreter's lock as long as this lives.
class Locked {
 public:
  Locked() {
    enter_interpreter();
    before_ = PyGILState_Ensure();
  }
  ~Locked() {
    PyGILState_Release(before_);
    leave_interpreter();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE before_;
};

/// A thread that is ended while this lives stays here. Its end is no exception of C++, and unwinds all the same.
class StaysWhenEnded {
 public:
  StaysWhenEnded() = default;
  ~StaysWhenEnded() {
    if (!over_ && std::uncaught_exceptions() == exceptions_) stay();
  }
  StaysWhenEnded(const StaysWhenEnded&) = delete;
  StaysWhenEnded& operator=(const StaysWhenEnded&) = delete;

  /// The call that this object guards has returned.
  void over() { over_ = true; }

 private:
  const int exceptions_ = std::uncaught_exceptions();
  bool over_ = false;
};

/// The result of `call`, made with the lock held. A thread that is ended in it, since it took longer than that second,
/// stays.
template <class Call>
auto call_locked(Call call) {
  StaysWhenEnded here;
  const auto locked = [&] {
    const Locked lock;
    return call();
  };
  if constexpr (std::is_void_v<decltype(call())>) {
    locked();
    here.over();
  } else {
    auto result = locked();
    here.over();
    return result;
  }
}

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
