#pragma once

#include <sys/types.h>

#include <vector>

namespace stretto::command {

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
