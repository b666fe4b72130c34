#pragma once

#include <functional>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/engine/driver.h"

namespace stretto {

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

/// Another driver, whose waits can be interrupted: it calls a function while the application waits. What that throws
/// ends the wait; what was waited for goes on, and can be waited for again.
class InterruptibleDriver final : public Driver {
 public:
  /// `driver` must outlive it. `look` is called on the application's thread, between steps of the engine.
  InterruptibleDriver(Driver& driver, std::function<void()> look) : driver_(driver), look_(std::move(look)) {}

  const Clock& clock() const override { return driver_.clock(); }
  void notify() override { driver_.notify(); }

 private:
  bool drive(FunctionRef<bool()> done, TimePoint deadline, Looking looking, std::atomic<std::uint32_t>* or_on) override;

  Driver& driver_;
  Look look_;
};

}  // namespace stretto
