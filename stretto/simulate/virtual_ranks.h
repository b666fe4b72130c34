#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/doorbell.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/simulate/cluster.h"

namespace stretto {

// Ranks whose applications block, on a virtual clock.
//
// Each rank's application runs in a thread of its own, as it is, and believes that it waits. In truth one thing at a
// time happens: either the loop of events runs (SimulatedCluster), or one application does. The turn goes from the loop
// to an application when its wait is over, and back when it waits again, so that everything that decides an order
// happens in the order of the events, which depends on the seed alone and not on the machine.
//
// Only what an application computes is done beside this. Its virtual duration is known before it begins: the
// application's return is an event at that time, and the application gives the turn back and computes on a core of its
// own, while the loop goes on with what happens before. When the loop comes to the event it waits until the computation
// is really over. So gradients of many ranks are computed at once, and none of it can be seen in the results.
//
// While an application waits or computes, its rank's engine is stepped by the loop, as soon as something comes for it:
// the helper thread of a real rank without the time that it would take to wake up.

/// A turn that one thread gives and one taker, asleep until then, takes. The turn of std::binary_semaphore yields the
/// processor many times first: where others compute on that core, each time lasts as long as their slices of it.
class Turn {
 public:
  void give() {
    word_.store(1, std::memory_order_release);  // with the exchange of take(): what the giver did before is seen
    futex_wake(word_, 1, /*shared=*/false);
  }
  void take() {
    while (word_.exchange(0, std::memory_order_acquire) == 0) {
      futex_sleep({&word_, 0}, 1, Duration::max(), /*shared=*/false);
    }
  }

 private:
  std::atomic<std::uint32_t> word_{0};
};

/// The thread of one rank of many in this process. There are as many as ranks, so its stack is smaller than the one of
/// `ulimit -s` that a thread else gets: thousands of those would be more address space than a process may have. Joined
/// by its destructor.
class RankThread {
 public:
  /// Bytes: sixteen times what the workloads here need (docs/decisions.md).
  static constexpr std::size_t kStack = std::size_t{2} << 20;
  /// Bytes below the stack that nobody may touch: a call that needs more stack ends the process by SIGSEGV.
  static constexpr std::size_t kGuard = std::size_t{64} << 10;

  /// Runs `body` in it, which must not throw. Throws Failure (Errc::unavailable) where the system makes no further
  /// thread.
  explicit RankThread(std::function<void()> body);
  ~RankThread();
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

 private:
  const std::function<void()> body_;
  pthread_t thread_{};
};

class VirtualRanks;

/// One rank's place on a virtual clock. Its application's thread calls everything here, but for what it inherits.
class VirtualRank final : public Driver {
 public:
  int rank() const { return rank_; }                             ///< this rank's number
  SimulatedCluster& cluster();                                   ///< of all ranks
  Transport& transport() { return cluster().transport(rank_); }  ///< of this rank
  const Clock& clock() const override;                           ///< the virtual one, the same for all ranks
  void notify() override;                                        ///< as Driver's; while it is this rank's turn

  /// The engine to drive from now on, until the application returns or lets go of it (null). `progress_by`: whether the
  /// engine is stepped while the application computes.
  void drive_engine(Engine* engine, ProgressBy progress_by = ProgressBy::thread);
  /// Another one, which is stepped wherever that is, until stop_driving(). Also called by events of the cluster.
  void drive_beside(Engine& engine);
  void stop_driving(Engine& engine);

  /// Passes so much virtual time.
  void compute(Duration duration) {
    compute(duration, [] {});
  }
  /// The same, and calls `work` meanwhile: at once in this thread, while other ranks' work and all events before that
  /// time go on, if there are several threads to compute with (VirtualRanks). So `work` may use what nothing else
  /// touches until it has returned, neither another rank nor this rank's engine. Rethrows what it throws, at the end.
  void compute(Duration duration, FunctionRef<void()> work);
  /// Waits until `done`, which is called when this rank is woken (SimulatedCluster::wake_by()): with an engine, which
  /// is driven meanwhile, or without.
  void wait_until(FunctionRef<bool()> done);

  /// Ends what the application waits for or computes at this moment by an exception, which passes through that call.
  /// Called by events of the cluster, not by an application. Without effect once the application has returned.
  void interrupt(std::exception_ptr why);

 private:
  friend class VirtualRanks;
  VirtualRank(VirtualRanks& ranks, int rank);

  bool drive(FunctionRef<bool()> done, TimePoint deadline, Looking looking, std::atomic<std::uint32_t>* or_on) override;
  bool drive_looking(FunctionRef<bool()> done, TimePoint deadline, Looking looking, std::atomic<std::uint32_t>* or_on,
                     Look& look) override;

  // On the application's thread.
  void main(const std::function<void(VirtualRank&)>& application);
  void rest();

  // In the loop.
  void resume();
  void woken();

  void step();
  TimePoint step_by() const;
  std::uint32_t rings();
  struct Waiting {
    FunctionRef<bool()> done;
    TimePoint deadline;
    Look* look;  // null: none
    /// When it is looked at again, at the latest.
    TimePoint until() const { return look == nullptr ? deadline : std::min(deadline, look->due()); }
  };

  bool wait_for(FunctionRef<bool()> done, TimePoint deadline, Look* look = nullptr);
  bool is_over(const Waiting& waiting);

  VirtualRanks& ranks_;
  const int rank_;
  Turn turn_;

  // Owned by whose turn it is.
  Engine* engine_ = nullptr;
  std::vector<Engine*> beside_;  // beside it
  ProgressBy progress_by_ = ProgressBy::thread;
  std::optional<Waiting> waiting_;
  bool done_ = false;          // of the wait that is over
  std::exception_ptr thrown_;  // by its `done`, or interrupt()
  bool computing_ = false;
  std::uint64_t computations_ = 0;  // of which the last one is under way, or has been
  bool over_ = false;               // the application has returned
  std::uint32_t rings_ = 0;         // of all doorbells at the last step

  Turn computed_;  // the work of compute() has been done in another thread
};

/// Runs blocking applications as the ranks of a simulated cluster. Once.
class VirtualRanks {
 public:
  /// Virtual time that passes without anything but deadlines, and no message under way at its end, until run() says
  /// that the ranks wait for one another for ever.
  static constexpr Duration kStuckAfter = std::chrono::hours(1);

  /// `compute_threads`: so many ranks compute at once (VirtualRank::compute()); 1: each in its turn. No result depends
  /// on it. The cluster must outlive it.
  explicit VirtualRanks(SimulatedCluster& cluster, int compute_threads = 1);
  ~VirtualRanks();
  VirtualRanks(const VirtualRanks&) = delete;
  VirtualRanks& operator=(const VirtualRanks&) = delete;

  /// Runs `application` as every rank from virtual time 0 on, a thread each, and returns when all have returned.
  /// Rethrows what the first of them by number has thrown. When no rank can go on any more, every wait throws Failure
  /// (Errc::timeout). Throws Failure (Errc::unavailable) where the system makes no further thread.
  void run(const std::function<void(VirtualRank&)>& application);

 private:
  friend class VirtualRank;
  void loop();
  bool waiting() const;  // some rank
  void give_up(const std::string& why);

  SimulatedCluster& cluster_;
  const int compute_threads_;
  std::counting_semaphore<> cores_;  // free to compute on
  Turn turn_;                        // of the loop
  std::vector<std::unique_ptr<VirtualRank>> all_;
  std::vector<std::exception_ptr> thrown_;  // by each application

  // Owned by whose turn it is.
  int running_ = 0;             // applications that have not returned
  int computing_ = 0;           // of them
  TimePoint last_progress_;     // when an application last went on with what it had waited for
  std::optional<Error> stuck_;  // no wait returns any more
};

}  // namespace stretto
