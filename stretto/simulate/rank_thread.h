#pragma once

#include <pthread.h>

#include <cstddef>
#include <functional>

namespace stretto {

/// The thread of one rank of many in this process. There are as many as ranks, so its stack is smaller than the one of
/// `ulimit -s` that a thread else gets: thousands of those would be more address space than a process may have. Joined
/// by its destructor.
class RankThread {
 public:
  /// Bytes: sixteen times what the workloads here need (docs/decisions.md).
  static constexpr std::size_t kStack = std::size_t{2} << 20;
  /// Bytes below the stack that nobody may touch: a call that needs more stack ends the process by SIGSEGV.
  static constexpr std::size_t kGuard = std::size_t{64} << 10;

  /// Runs `body` in it, which must not throw. Throws Failure (Errc::unavailable) where the system makes no further
  /// thread.
  explicit RankThread(std::function<void()> body);
  ~RankThread();
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

 private:
  const std::function<void()> body_;
  pthread_t thread_{};
};

}  // namespace stretto
