#pragma once

#include <chrono>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"

namespace stretto {

/// How long a rank that leaves waits for what it has sent: two seconds after anything of it has moved.
class Leaving {
 public:
  /// Returns once `done()`, or when the time is over. `moves()`: whether anything has moved.
  void until(FunctionRef<bool()> done, FunctionRef<bool()> moves) {
    while (!done() && clock_.now() < end_) {
      if (moves()) {
        end_ = clock_.now() + Duration(kToLeave);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

 private:
  static constexpr std::chrono::seconds kToLeave{2};
  const SteadyClock clock_{};
  TimePoint end_ = clock_.now() + Duration(kToLeave);
};

}  // namespace stretto
