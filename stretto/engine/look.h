#pragma once

#include <functional>
#include <utility>

#include "stretto/base/clock.h"

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

}  // namespace stretto
