#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/random.h"
#include "stretto/engine/blocks.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Time as the events of a simulation make it.
class VirtualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance_to(TimePoint t) { now_ = t; }

 private:
  TimePoint now_;
};

/// How messages travel: LogGP with a random part, drawn from the seed.
struct NetworkOptions {
  Duration latency{1000};          ///< of every message
  Duration overhead{100};          ///< the sender is busy this long for each message
  double bytes_per_second = 10e9;  ///< of one directed link
  Duration jitter{0};              ///< added to the latency, uniform in [0, jitter]; lets pairs overtake one another
  bool payload = true;             ///< bodies have bytes
};

/// The ranks of a job on a virtual clock: event queue, links and faults, all from one seed. Single-threaded.
///
/// A body is read from the sender's memory when the message is delivered, not when it is sent, and only then is the
/// send complete: whoever writes to a buffer too early is found out.
class SimulatedCluster {
 public:
  SimulatedCluster(int ranks, NetworkOptions network, std::uint64_t seed);
  ~SimulatedCluster();

  int size() const { return static_cast<int>(nodes_.size()); }
  VirtualClock& clock() { return clock_; }
  TimePoint now() const { return clock_.now(); }
  Transport& transport(int rank);

  /// From now on the ranks share so many bytes (Transport::arena()); what meets there takes its steps one at a time.
  void share_memory(std::uint64_t bytes);

  /// Called when something has come for `rank` or its doorbell has rung. Usually steps an engine.
  void on_wake(int rank, std::function<void()> wake);
  /// Calls `run` on behalf of `rank` at `time` (later while the rank is stopped, never after a crash).
  void at(TimePoint time, int rank, std::function<void()> run);
  void after(Duration delay, int rank, std::function<void()> run) { at(now() + delay, rank, std::move(run)); }

  /// Makes one event happen. Returns false when there is none.
  bool run_next();
  /// Whether a message, a completion or a stopped rank's backlog is still under way.
  bool busy() const { return under_way_ > 0; }
  /// Events that have happened.
  std::uint64_t events() const { return happened_; }
  std::uint64_t messages() const { return messages_; }

  // ---- faults ----

  /// Multiplies latency and transfer time from `src` to `dst`.
  void slow_link(int src, int dst, double factor);
  /// Nothing happens at `rank` until `until`; what comes waits.
  void stop(int rank, TimePoint until);
  /// `rank` is gone: its messages in flight are lost, and the others hear of it after `notice`.
  void crash(int rank, Duration notice);

 private:
  class Node;
  struct Message;
  struct Event;
  struct Later;

  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };

  void post(Message* message);
  void push(TimePoint time, int rank, std::function<void()> run, Message* message);
  void wake(int rank);
  Message* new_message();

  const NetworkOptions network_;
  Random random_;
  VirtualClock clock_;
  std::uint64_t happened_ = 0;
  std::uint64_t messages_ = 0;
  std::int64_t under_way_ = 0;  // events that are no rank's own doing
  std::uint64_t order_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<double> link_factor_;      // per ordered pair; empty: all 1
  std::vector<TimePoint> last_arrival_;  // per ordered pair: messages of one pair keep their order
  std::vector<Event> queue_;             // a heap, earliest first
  std::vector<std::unique_ptr<Message>> all_messages_;
  std::vector<Message*> free_messages_;
  std::unique_ptr<std::byte, FreeMemory> shared_;
};

}  // namespace stretto
