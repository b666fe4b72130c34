#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// An event of CorePools: it happens once.
using PoolEvent = std::size_t;

/// The next operation of a simulated thread.
struct CoreOperation {
  enum class Kind {
    compute,  ///< uses `time` of a core
    sleep,    ///< uses none, and asks to wake after `time`
    wait,     ///< sleeps until `event`
    spin,     ///< keeps its core busy until `event`, and sees it only while it runs
    end,      ///< nothing more
  };
  Kind kind = Kind::end;
  Duration time{0};
  PoolEvent event = 0;

  static CoreOperation compute(Duration time) { return {Kind::compute, time}; }
  static CoreOperation sleep(Duration time) { return {Kind::sleep, time}; }
  static CoreOperation wait(PoolEvent event) { return {Kind::wait, Duration(0), event}; }
  static CoreOperation spin(PoolEvent event) { return {Kind::spin, Duration(0), event}; }
};

/// Threads on pools of cores with preemption, on a virtual clock. A pool has one queue: a thread whose slice is over
/// goes to its end if others wait there, and is given another slice if not. A thread that wakes is delayed as drawn
/// (measured delays have the waiting for a core in them), then takes a free core, or that of the thread that has run
/// longest without a break, which goes to the end of the queue. Beside the cores there are accelerators: each does
/// what it is given, one after the other. Event-driven and exact. One thread.
class CorePools {
 public:
  using Pool = std::size_t;
  using Thread = std::size_t;
  using Accelerator = std::size_t;
  /// How much later than it asked for, or than its event, a thread wakes. `busy`: no core of its pool is free then.
  using WakeUp = std::function<Duration(Thread thread, bool busy)>;
  /// Called while the thread has a core and what it did before is over. May call what is below.
  using Program = std::function<CoreOperation()>;

  /// Requires: `slice` > 0. Without `wake_up` threads wake at once.
  explicit CorePools(Duration slice, WakeUp wake_up = {});

  /// Requires: `cores` ≥ 1.
  Pool add_pool(int cores);
  /// Adds a thread at the end of the pool's queue. Requires: the pool is there.
  Thread add_thread(Pool pool, Program program);
  Accelerator add_accelerator();

  PoolEvent new_event();
  /// Requires: `time` is not past.
  void signal_at(PoolEvent event, TimePoint time);
  bool has_happened(PoolEvent event) const { return happened_[event]; }
  /// Gives the accelerator work; `done` happens when it is over.
  void submit(Accelerator accelerator, Duration work, PoolEvent done);

  TimePoint now() const { return now_; }
  /// Of a core, until now.
  Duration used(Thread thread) const;
  /// Goes on until nothing can happen any more, or `stop` says so, which is asked after each event.
  void run(const std::function<bool()>& stop);

 private:
  enum class State { queued, running, asleep, ended };
  struct PooledThread {
    Pool pool = 0;
    Program program;
    State state = State::queued;
    CoreOperation operation{};   // what it does
    bool has_operation = false;  // else the program is asked when it gets a core
    TimePoint since{};           // running: when it got its core
    TimePoint accounted{};       // running: up to when `used` and the operation know
    TimePoint slice_end{};
    Duration used{0};
    std::uint64_t due = 0;  // number of the due that counts
  };
  struct CoreQueue {
    int cores = 0;
    std::deque<Thread> waiting;
    std::vector<Thread> running;
  };
  enum class What { due, wake, run, signal };
  struct Happening {
    TimePoint time;
    std::uint64_t number = 0;  // breaks ties: first come, first served
    What what = What::due;
    std::size_t whom = 0;  // a thread or an event
    bool operator>(const Happening& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  std::uint64_t plan(TimePoint time, What what, std::size_t whom);
  void happen(const Happening& happening);
  void give_core(Thread thread);
  void leave_core(Thread thread);
  /// Gives free cores to those that wait.
  void dispatch(Pool pool);
  void enqueue(Thread thread);
  void wake(Thread thread);
  void woken(Thread thread);
  void account(PooledThread& thread);
  /// Goes through operations until one takes time; leaves the core if one sleeps.
  void go_on(Thread thread);
  /// Whether the running thread's operation is over.
  bool is_over(const PooledThread& thread) const;
  void plan_due(Thread thread);

  const Duration slice_;
  const WakeUp wake_up_;
  TimePoint now_{};
  std::uint64_t planned_ = 0;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  std::vector<CoreQueue> pools_;
  std::vector<PooledThread> threads_;
  std::vector<TimePoint> accelerators_;  // when each is free
  std::vector<bool> happened_;
  std::vector<std::vector<Thread>> waiters_;  // by event, spinning ones included
};

}  // namespace stretto
