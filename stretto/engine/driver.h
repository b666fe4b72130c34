#pragma once

#include <atomic>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/engine/engine.h"

namespace stretto {

enum class ProgressBy {
  thread,       ///< a helper thread, which a waiting application thread relieves
  application,  ///< the application thread alone, inside its calls: passive only while it computes
};

struct DriverOptions {
  ProgressBy progress_by = ProgressBy::thread;
  Duration spin{1000};  ///< before sleeping, look this long without giving up the core; 0 with more ranks than cores
  int yields = 20;      ///< then give up the core this often before sleeping

  /// For ranks that share cores: one that spins takes the core from one that computes, one that yields often from one
  /// that has a message.
  DriverOptions& share_cores() {
    spin = Duration(0);
    yields = 1;
    return *this;
  }
};

/// Drives one engine in a real process: whoever has something to wait for steps it, nobody steps it twice.
class EngineDriver {
 public:
  explicit EngineDriver(Engine& engine, DriverOptions options = {});
  ~EngineDriver();  ///< stops and joins the helper
  EngineDriver(const EngineDriver&) = delete;
  EngineDriver& operator=(const EngineDriver&) = delete;

  /// Whether who waits looks a while before it sleeps, as DriverOptions say, or has done so already.
  enum class Looking { first, enough };

  /// Drives the engine until `done()` or the deadline. Returns whether it was done. `done` is called on this thread
  /// between steps. One application thread.
  /// `or_on`: a word to sleep on, too, that changes when `done` may have (shared memory only); null: none.
  bool wait(FunctionRef<bool()> done, TimePoint deadline, Looking looking = Looking::first,
            std::atomic<std::uint32_t>* or_on = nullptr);

  /// The time `duration` from now.
  TimePoint deadline(Duration duration) const { return engine_.clock().now() + duration; }

  /// Tells whoever drives that there is something new to look at. Any thread.
  void notify();

 private:
  // helper_awake → helper_asleep → application → helper_asleep …; see driver.cc for who moves it.
  enum class State : int { helper_awake, helper_asleep, application };

  void run_helper();
  void wake_helper_up();
  void take_over();
  void hand_back(std::uint32_t seen);

  Engine& engine_;
  const DriverOptions options_;
  std::atomic<State> state_;
  std::atomic<bool> wanted_{false};  // the application asks an awake helper to let go
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> helper_wakes_at_{0};  // nanoseconds on the engine's clock
  std::thread helper_;
};

}  // namespace stretto
