#include "python/binding/interpreter.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace stretto::python {
namespace {

// Both are written, then the other is read, in one order for all threads: either the one that enters sees that it is
// too late, or the one that closes sees it enter.
std::atomic<int> threads_inside = 0;
std::atomic<std::thread::id> closed_by;

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

}  // namespace stretto::python
