#include "command/ordering/timed_oversleep.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "command/machine/measuring.h"
#include "command/statistics/statistics.h"
#include "stretto/base/machine/cores.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kPiece = 100us;   // of computation, between two looks at the clock
constexpr double kLongPause = 1e-3;  // seconds

/// Threads that keep a core busy until this object goes.
class BusyThreads {
 public:
  BusyThreads(int count, int core) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, core] {
        pin_thread(std::span(&core, 1));
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyThreads() {
    stop_.store(true, std::memory_order_relaxed);  // read by each thread; nothing else is handed over
    for (std::thread& thread : threads_) thread.join();
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Runs `work` in a thread of its own on that core, beside busy ones; hands on what it throws.
void run_on(int core, int beside, const std::function<void()>& work) {
  std::exception_ptr thrown;
  std::thread thread([&] {
    try {
      pin_thread(std::span(&core, 1));
      const BusyThreads others(beside, core);
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

/// Seconds that pieces of computation took, one after the other, for `time`.
std::vector<double> timed_pieces(std::uint64_t passes, Duration time) {
  const SteadyClock clock;
  std::vector<double> pieces;
  TimePoint before = clock.now();
  const TimePoint end = before + time;
  while (before < end) {
    timed_work(passes);
    const TimePoint now = clock.now();
    pieces.push_back(seconds(now - before));
    before = now;
  }
  return pieces;
}

}  // namespace

Oversleeps measure_oversleep(const OversleepExperiment& experiment) {
  const SteadyClock clock;
  Oversleeps out;
  run_on(usable_cores().front(), experiment.beside, [&] {
    Duration processor{0};
    for (int i = 0; i < experiment.sleeps; ++i) {
      const Duration used = thread_time();
      const TimePoint wakes = clock.now() + experiment.asked;
      std::this_thread::sleep_for(experiment.asked);
      out.seconds.push_back(std::max(0.0, seconds(clock.now() - wakes)));
      processor += thread_time() - used;
      if (!experiment.spins) continue;
      for (const TimePoint end = clock.now() + experiment.asked; clock.now() < end;) {
      }
    }
    out.processor = seconds(processor) / experiment.sleeps;
  });
  return out;
}

SpinPauses measure_spin_pauses(Duration time) {
  const int core = usable_cores().front();
  const std::uint64_t passes = calibrate(kPiece);
  std::vector<double> alone, beside;
  run_on(core, 0, [&] { alone = timed_pieces(passes, time); });
  run_on(core, 1, [&] { beside = timed_pieces(passes, time); });
  const double piece = median(alone);  // most of them are not interrupted
  const auto pause = [piece](double taken) { return std::max(0.0, taken - piece); };
  SpinPauses out;
  for (const double taken : alone) out.alone_share += pause(taken);
  for (const double taken : beside) {
    if (pause(taken) >= kLongPause) {
      out.seconds.push_back(pause(taken));
    } else {
      out.short_share += pause(taken);
    }
  }
  out.alone_share /= seconds(time);
  out.short_share /= seconds(time);
  out.per_second = static_cast<double>(out.seconds.size()) / seconds(time);
  return out;
}

}  // namespace stretto::command
