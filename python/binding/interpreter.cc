#include "python/binding/interpreter.h"

#include <nanobind/stl/string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/membership/job.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

// Both are written, then the other is read, in one order for all threads: either the one that enters sees that it is
// too late, or the one that closes sees it enter.
std::atomic<int> threads_inside = 0;
std::atomic<std::thread::id> closed_by;

std::string name_and_text(const nb::python_error& error) {
  const std::string type = nb::cast<std::string>(error.type().attr("__name__"));
  const std::string said = nb::cast<std::string>(nb::str(error.value()));
  return said.empty() ? type : type + ": " + said;
}

const char* class_of(Errc code) {
  switch (code) {
    case Errc::timeout: return "Timeout";
    case Errc::lost_peer: return "RankLost";
    case Errc::aborted: return "Aborted";
    case Errc::diverged: return "Diverged";
    case Errc::bad_input: return "UsageError";
    case Errc::unavailable:
    case Errc::io:
    case Errc::members_changed:
    case Errc::excluded: break;
  }
  return "Error";
}

void raise(const char* name, const std::string& message, int rank) {
  try {
    const nb::object type = nb::module_::import_("stretto._errors").attr(name);
    const nb::object error = type(message.c_str());
    if (rank >= 0) error.attr("rank") = rank;
    PyErr_SetObject(type.ptr(), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Raised& raised) {
    try {
      std::rethrow_exception(raised.cause());
    } catch (nb::python_error& error) {
      error.restore();
    }
  } catch (const Left& left) {
    raise("Left", left.what(), -1);
  } catch (const Failure& failure) {
    raise(class_of(failure.error().code), failure.error().message, failure.error().rank);
  } catch (const UsageError& error) {
    raise("UsageError", error.what(), -1);
  }
}

}  // namespace

void close_interpreter() {
  using Clock = std::chrono::steady_clock;
  closed_by = std::this_thread::get_id();
  PyThreadState* state = PyEval_SaveThread();
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(1);
  while (threads_inside > 0 && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(state);
}

void enter_interpreter() {
  ++threads_inside;
  const std::thread::id closing = closed_by;
  if (closing == std::thread::id() || closing == std::this_thread::get_id()) return;
  --threads_inside;
  stay();
}

void leave_interpreter() {
  --threads_inside;
}

void stay() {
  for (;;) pause();
}

Raised::Raised(nb::python_error&& error)
    : std::runtime_error(name_and_text(error)), cause_(std::make_exception_ptr(std::move(error))) {}

void look_for_signals() {
  with_python([] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
}

void translate_errors(nb::module_&) {
  nb::register_exception_translator(translate);
}

}  // namespace stretto::python
