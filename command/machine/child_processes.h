#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/error.h"

namespace stretto::command {

/// A function that runs in a child process, for a caller with other things to watch meanwhile. The child leaves cores
/// to whatever else wants them, and dies with this process. One thread.
class BackgroundTask {
 public:
  /// Forks. Throws Failure, Errc::io, where no process can be made. Requires: this process has no other threads.
  explicit BackgroundTask(const std::function<std::string()>& work);
  ~BackgroundTask();  ///< ends the child, if it still works
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// The text that `work` has returned; nothing while it works. Errc::aborted has the text of what it has thrown, or
  /// says that the child was killed. The same from then on.
  std::optional<Result<std::string>> poll();
  /// The same, when it is there.
  Result<std::string> wait();

 private:
  /// Takes what there is to read; at its end, the result.
  void listen(bool block);
  void reap();

  int from_child_ = -1;
  pid_t child_ = 0;  // 0 once it has been waited for
  std::string heard_;
  std::optional<Result<std::string>> result_;
};

/// Processes that do nothing but keep the cores busy while this object lives. They end with it, and with this process
/// however that ends. Owned by the thread that made it, which must outlive it.
class BusyProcesses {
 public:
  /// Throws Failure (Errc::io) when one cannot be started.
  explicit BusyProcesses(int count);
  ~BusyProcesses();
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

  const std::vector<pid_t>& processes() const { return processes_; }

 private:
  void end();

  std::vector<pid_t> processes_;
};

}  // namespace stretto::command
