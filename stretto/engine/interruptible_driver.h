#pragma once

#include "stretto/engine/driver.h"
#include "stretto/engine/look.h"

namespace stretto {

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
