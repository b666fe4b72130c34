#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// Which thread steps the engine while the application computes.
enum class ProgressBy {
  thread,       ///< a helper thread, which a waiting application thread relieves
  application,  ///< the application thread alone, inside its calls: passive only while it computes
};

/// How an EngineDriver waits. May differ between ranks.
struct DriverOptions {
  /// The helper costs a thread; without it a rank that computes joins no round.
  ProgressBy progress_by = ProgressBy::thread;
  Duration spin{1000};  ///< before sleeping, look this long without giving up the core; 0 with more ranks than cores
  int yields = 20;      ///< then give up the core this often before sleeping

  /// For ranks that share cores: a rank that spins takes the core from a rank that computes; a rank that yields often
  /// takes it from a rank that has a message to handle.
  DriverOptions& share_cores() {
    spin = Duration(0);
    yields = 1;
    return *this;
  }
};

/// A function that a thread calls about ten times a second while it waits, such as one that looks for signals. What it
/// throws passes through the wait. One thread.
class Look {
 public:
  /// `look` may be empty.
  explicit Look(std::function<void()> look) : look_(std::move(look)) {}

  /// When to call it next: no sleep lasts longer. Never where it is empty.
  TimePoint due() const { return look_ ? due_ : TimePoint::never(); }
  /// Calls it where it is due.
  void at(TimePoint now) {
    if (now < due()) return;
    due_ = now + kEvery;
    look_();
  }

 private:
  static constexpr Duration kEvery = std::chrono::milliseconds(100);
  const std::function<void()> look_;
  TimePoint due_;
};

/// Lets a rank's application wait: time passes, real or virtual, while the rank's engine is stepped.
class Driver {
 public:
  virtual ~Driver() = default;  ///< no call may be under way

  /// Whether the application thread looks a while before it sleeps.
  enum class Looking {
    first,   ///< it looks first, as long as DriverOptions::spin and DriverOptions::yields say
    enough,  ///< the caller has looked: it sleeps at once
  };

  /// Drives the engine until `done()` or the deadline. Returns whether it was done. `done` is called on this thread: at
  /// once, where a helper may be stepping the engine, then between steps. One application thread.
  /// `or_on`: a word to sleep on, too, that changes when `done` may have (shared memory only); null: none.
  bool wait(FunctionRef<bool()> done, TimePoint deadline, Looking looking = Looking::first,
            std::atomic<std::uint32_t>* or_on = nullptr) {
    return done() || drive(done, deadline, looking, or_on);
  }

  /// wait() with a `done` that reads what only the thread that drives may read: it is called between steps alone, at
  /// least once.
  bool wait_driving(FunctionRef<bool()> done, TimePoint deadline) {
    return drive(done, deadline, Looking::first, nullptr);
  }

  /// The time `duration` from now.
  TimePoint deadline(Duration duration) const { return clock().now() + duration; }
  virtual const Clock& clock() const = 0;  ///< of the engine's deadlines

  /// Tells the thread that drives the engine that there is something new to look at. Any thread.
  virtual void notify() = 0;

 private:
  friend class InterruptibleDriver;
  /// wait() without the first call of `done`.
  virtual bool drive(FunctionRef<bool()> done, TimePoint deadline, Looking looking,
                     std::atomic<std::uint32_t>* or_on) = 0;
  /// The same, and `look` is called when it is due. What it throws passes through.
  virtual bool drive_looking(FunctionRef<bool()> done, TimePoint deadline, Looking looking,
                             std::atomic<std::uint32_t>* or_on, Look& look);
};

/// Drives one engine in a real process: the application thread while it waits, otherwise a helper thread, never both.
class EngineDriver final : public Driver, private EngineStepper {
 public:
  /// Starts the helper thread, if there is to be one. `engine` must outlive it. Throws Failure (Errc::unavailable)
  /// where the system makes no further thread. Application thread.
  explicit EngineDriver(Engine& engine, DriverOptions options = {});
  ~EngineDriver() override;  ///< stops and joins the helper
  EngineDriver(const EngineDriver&) = delete;
  EngineDriver& operator=(const EngineDriver&) = delete;

  const Clock& clock() const override { return engine_.clock(); }
  void notify() override;

 private:
  // helper_awake → helper_asleep → application → helper_asleep …; see driver.cc for the thread that moves it.
  enum class State : int { helper_awake, helper_asleep, application };

  bool drive(FunctionRef<bool()> done, TimePoint deadline, Looking looking, std::atomic<std::uint32_t>* or_on) override;
  void pause() override { take_over(); }
  void resume() override;
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

/// Another driver, whose waits can be interrupted: it calls a function while the application waits. What that throws
/// ends the wait; what was waited for goes on, and can be waited for again.
class InterruptibleDriver final : public Driver {
 public:
  /// `driver` must outlive it. `look` is called on the application's thread, between steps of the engine.
  InterruptibleDriver(Driver& driver, std::function<void()> look) : driver_(driver), look_(std::move(look)) {}

  const Clock& clock() const override { return driver_.clock(); }
  void notify() override { driver_.notify(); }

 private:
  bool drive(FunctionRef<bool()> done, TimePoint deadline, Looking looking,
             std::atomic<std::uint32_t>* or_on) override {
    return driver_.drive_looking(done, deadline, looking, or_on, look_);
  }

  Driver& driver_;
  Look look_;
};

}  // namespace stretto
