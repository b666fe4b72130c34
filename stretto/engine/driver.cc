#include "stretto/engine/driver.h"

#include <algorithm>
#include <system_error>

#include "stretto/base/machine/process_limits.h"

namespace stretto {
namespace {

/// Longest sleep: bounds the damage of a ring that a dying process did not finish.
constexpr Duration kLongestSleep = std::chrono::milliseconds(250);

}  // namespace

// state_ is moved by the helper thread between awake and asleep, by compare-and-swap, and by the application thread
// from asleep to application (take_over) and back (hand_back). The thread that has moved it to awake or application may
// call Engine::step(). While the application drives, the helper stays parked on the doorbell and is not answerable: it
// costs nothing.

EngineDriver::EngineDriver(Engine& engine, DriverOptions options)
    : engine_(engine), options_(options), state_(State::helper_awake) {
  if (options_.progress_by == ProgressBy::thread) {
    engine_.set_stepper(this);
    try {
      helper_ = std::thread([this] { run_helper(); });
    } catch (const std::system_error& error) {
      engine_.set_stepper(nullptr);
      throw Failure({Errc::unavailable,
                     text("rank ", engine_.rank(), " cannot start the thread that helps its rounds along: ",
                          why_no_process(error.code().value())),
                     engine_.rank()});
    }
  } else {
    state_ = State::helper_asleep;
  }
}

EngineDriver::~EngineDriver() {
  stop_.store(true);
  if (helper_.joinable()) {
    engine_.doorbell().set_answerable(Doorbell::Sleeper::helper);
    engine_.doorbell().ring();
    helper_.join();
    engine_.set_stepper(nullptr);
  }
}

void EngineDriver::notify() {
  engine_.doorbell().ring();
}

void EngineDriver::resume() {
  engine_.doorbell().set_answerable(Doorbell::Sleeper::helper);
  state_.store(State::helper_asleep);
  engine_.doorbell().ring();  // the engine has not been looked at since the pause began
}

void EngineDriver::run_helper() {
  Doorbell& bell = engine_.doorbell();
  const Clock& clock = engine_.clock();
  int idle = 0;
  while (!stop_.load()) {
    const std::uint32_t seen = bell.rings();
    bool asked = wanted_.load();
    if (!asked && engine_.step()) {
      idle = 0;
      continue;
    }
    asked = asked || wanted_.load();
    if (!asked && idle++ < options_.yields) {
      std::this_thread::yield();
      continue;
    }
    idle = 0;
    const TimePoint now = clock.now();
    const Duration longest = std::clamp(engine_.step_by() - now, Duration::zero(), kLongestSleep);
    helper_wakes_at_.store((now + longest).since_start.count());
    bell.set_answerable(Doorbell::Sleeper::helper);
    state_.store(State::helper_asleep);  // from here on the application may take over, and answer
    bell.park(seen, Doorbell::Sleeper::helper, asked ? kLongestSleep : longest);
    wake_helper_up();
  }
}

void EngineDriver::wake_helper_up() {
  Doorbell& bell = engine_.doorbell();
  while (!stop_.load()) {
    const std::uint32_t parked_at = bell.rings();
    // Before the look at state_; pairs with hand_back(), which looks at it after setting state_.
    helper_wakes_at_.store((engine_.clock().now() + kLongestSleep).since_start.count());
    State asleep = State::helper_asleep;
    if (!wanted_.load() && state_.compare_exchange_strong(asleep, State::helper_awake)) {
      bell.clear_answerable();
      return;
    }
    bell.park(parked_at, Doorbell::Sleeper::helper, kLongestSleep);
  }
}

void EngineDriver::take_over() {
  wanted_.store(true);
  for (int tries = 0;; ++tries) {
    State asleep = State::helper_asleep;
    if (state_.compare_exchange_strong(asleep, State::application)) break;
    if (tries < options_.yields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  engine_.doorbell().clear_answerable();
  wanted_.store(false);
}

void EngineDriver::hand_back(std::uint32_t seen) {
  Doorbell& bell = engine_.doorbell();
  const std::int64_t step_by = engine_.step_by().since_start.count();
  const bool helper = options_.progress_by == ProgressBy::thread;
  if (helper) bell.set_answerable(Doorbell::Sleeper::helper);
  state_.store(State::helper_asleep);
  // A ring since this thread's last look found no answerable thread: ring again, for the helper.
  if (helper && (bell.rings() != seen || step_by < helper_wakes_at_.load())) bell.ring();
}

bool EngineDriver::drive(FunctionRef<bool()> done, TimePoint deadline, Looking looking,
                         std::atomic<std::uint32_t>* or_on) {
  take_over();
  Doorbell& bell = engine_.doorbell();
  const Clock& clock = engine_.clock();
  TimePoint idle_since = clock.now();
  int yields = 0;
  bool finished = false;
  std::uint32_t seen = 0;
  for (;;) {
    seen = bell.rings();
    const FutexWait also{or_on, or_on == nullptr ? 0 : or_on->load(std::memory_order_seq_cst)};
    const bool did = engine_.step();
    finished = done();
    const TimePoint now = clock.now();
    if (finished || now >= deadline) break;
    if (did) {
      idle_since = now;
      yields = 0;
    } else if (looking == Looking::enough || now - idle_since >= options_.spin) {
      if (looking == Looking::first && yields++ < options_.yields) {
        std::this_thread::yield();
      } else {
        bell.sleep(seen, Doorbell::Sleeper::application,
                   std::min({engine_.step_by() - now, deadline - now, kLongestSleep}), also);
        idle_since = clock.now();
        yields = 0;
      }
    }
  }
  hand_back(seen);
  return finished;
}

bool Driver::drive_looking(FunctionRef<bool()> done, TimePoint deadline, Looking looking,
                           std::atomic<std::uint32_t>* or_on, Look& look) {
  for (;;) {
    if (drive(done, std::min(deadline, look.due()), looking, or_on)) return true;
    const TimePoint now = clock().now();
    look.at(now);
    if (now >= deadline) return false;
  }
}

}  // namespace stretto
