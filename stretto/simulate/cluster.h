#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/random.h"
#include "stretto/engine/blocks.h"
#include "stretto/simulate/card_shares.h"
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
  double bytes_per_second = 10e9;  ///< of one directed link, or of a rank's card in each direction
  /// False: every message has a link of its own, and those of one rank do not slow each other. True: all messages of a
  /// rank share its network card, each direction by itself. A message above kPacketBytes leaves when those before it
  /// have left, and is received when those that reached the receiver before it have been; smaller ones pass between
  /// the packets of larger ones, except those between the same two ranks. Requires: pieces = 1.
  bool shared_card = false;
  /// Of shared cards. True: messages larger than kPacketBytes do not queue there but advance together, as over TCP,
  /// each by its share (CardShares); only those between the same two ranks go one after another.
  bool fair_shares = false;
  /// Of fair shares: each message draws its weight, log-normal with the mean 1 and this standard deviation.
  double unevenness = 0;
  /// Bytes that a byte of a body stands for, in the time it takes: a small model in place of a large one.
  double body_scale = 1;
  Duration jitter{0};   ///< added to the latency, uniform in [0, jitter]; lets pairs overtake one another
  bool payload = true;  ///< bodies have bytes
  int pieces = 1;       ///< a body comes in up to so many, drawn, with time between them
  /// Bodies of at most so many bytes are copied when they are sent, and the send is complete at once, as by the eager
  /// protocol of MPI; it saves an event a message. −1: none.
  std::int64_t eager_bytes = -1;

  static constexpr double kPacketBytes = 4096;  ///< of a message that waits for no other at a shared card
};

/// The ranks of a job on a virtual clock: event queue, links and faults, all from one seed. Single-threaded.
///
/// But for eager messages, a body is read from the sender's memory when the message is delivered, piece by piece, not
/// when it is sent, and only then is the send complete: so a write to the buffer before then changes the message and is
/// found. So is a receiver that uses the memory for something else before the last piece has come.
class SimulatedCluster {
 public:
  SimulatedCluster(int ranks, NetworkOptions network, std::uint64_t seed);
  ~SimulatedCluster();

  int size() const { return static_cast<int>(nodes_.size()); }
  const NetworkOptions& network() const { return network_; }
  VirtualClock& clock() { return clock_; }
  TimePoint now() const { return clock_.now(); }
  Transport& transport(int rank);

  // ---- worlds: jobs whose members change have one after the other ----

  /// Some of the nodes as the ranks of a network of their own: no message of it reaches another one, but all share the
  /// cards of the nodes.
  struct World;
  /// Of these nodes, by rank.
  std::shared_ptr<World> make_world(std::vector<int> nodes);
  /// The transport of a rank of `world`, which has come there when this returns, and is gone when the transport ends.
  /// Messages to a rank that is not there go nowhere; those of a rank that is gone are lost. No other rank is told.
  /// Requires: the rank is not there; the cluster outlives the transport.
  std::unique_ptr<Transport> enter(std::shared_ptr<World> world, int rank);

  /// Before anything else: the ranks are on these hosts, in place of one. Requires: members.size() == size().
  void place(Members members);
  /// From now on the ranks of each host share `bytes` bytes (Host::arena). Boards that lie there take one step at a
  /// time. Throws UsageError with more than JobMemory::kMaxRanks ranks, std::bad_alloc where there is too little
  /// memory.
  void share_memory(std::uint64_t bytes);

  /// Called when something has come for `rank` or its doorbell has rung. Usually steps an engine.
  void on_wake(int rank, std::function<void()> wake);
  /// Wakes `rank` at `time`, unless it will be woken by this before; it asks for a later time when it is. So there is
  /// one such wake under way for a rank, however often its next deadline is asked for. never(): does nothing.
  void wake_by(int rank, TimePoint time);
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
  /// Messages of a rank to ranks on other hosts.
  struct Traffic {
    int peers = 0;
    std::uint64_t messages = 0;
  };
  Traffic sent_between_hosts(int rank) const;

  // ---- faults ----

  /// Multiplies latency and transfer time from `src` to `dst`.
  void slow_link(int src, int dst, double factor);
  /// `rank` stands still until `until`; messages for it wait.
  void stop(int rank, TimePoint until);
  /// `rank` is gone: its messages in flight are lost, and the others hear of it after `notice`.
  void crash(int rank, Duration notice);

 private:
  struct Node;
  class Port;
  struct Message;
  struct Event;
  struct Later;

  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };

  std::uint64_t link(int src, int dst) const;
  Duration drawn_below(Duration limit);
  void post(Message* message);
  /// The first byte of a message has come to the card of the receiver.
  void reach(Message* message);
  /// Of the messages between two ranks that are at fair cards: small ones in front pass, and the first large one
  /// begins.
  void pass_on(int src, int dst);
  /// The first of them has been received.
  void pass(int src, int dst, TimePoint received);
  /// The earliest transfer at fair cards is over.
  void end_transfer();
  void give_up_transfers(int src);
  void enqueue(const Event& event);
  /// A piece of `message` for `rank`; null: something else that wakes it.
  void push(TimePoint time, int rank, Message* message = nullptr);
  std::function<void()> take_run(std::int32_t index);
  void wake(int rank);
  Message* new_message();
  void free(Message* message);
  /// Null: it is gone.
  static Port* sender_of(const Message& message);
  /// A message that nobody receives.
  void drop(Message* message);
  /// A piece of a message has come to its receiver.
  void arrive(Message* message);

  const NetworkOptions network_;
  Random random_;
  VirtualClock clock_;
  std::uint64_t happened_ = 0;
  std::uint64_t messages_ = 0;
  std::int64_t under_way_ = 0;  // events that are no rank's own doing
  std::uint64_t order_ = 0;
  std::shared_ptr<World> all_;  // of all nodes
  std::vector<std::unique_ptr<Message>> all_messages_;
  std::vector<Message*> free_messages_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::uint64_t, double> link_factor_;       // of ordered pairs; 1 where there is none
  std::vector<Event> queue_;                                    // a heap, earliest first
  std::vector<std::function<void()>> runs_;                     // of events in the queue
  std::vector<std::int32_t> free_runs_;                         // indices into runs_ that no event has
  std::optional<CardShares> shares_;                            // of fair cards
  std::vector<Message*> transfers_;                             // by their numbers there; null: over
  std::vector<std::unique_ptr<std::byte, FreeMemory>> shared_;  // by host
};

/// Bytes per second. What a message of a gigabyte takes there is still far below the longest duration.
inline constexpr double kLeastBandwidth = 1e4;

/// Reads a network between hosts, written as parts joined by commas, each of which may be left out:
///   latency=1us          of every message; 1us
///   bandwidth=10GB/s     of each rank's card, in each direction; 10GB/s. Also kB/s, MB/s, and Mbit/s, Gbit/s
///   overhead=100ns       a sender is busy this long with each message; 100ns
///   jitter=0             added to the latency, drawn uniformly from 0 to this; 0
///   sharing=fair         large messages share the cards instead of queueing there (NetworkOptions::fair_shares); fifo
///   unevenness=0.5       of fair shares, from 0 to 10 (NetworkOptions::unevenness); 0
/// A rank's messages share its card (NetworkOptions::shared_card). An empty text: all as left out. Throws UsageError
/// that names the part, the parts expected and an example.
NetworkOptions parse_network(const std::string& written);

/// The text that parse_network() reads, with every part that counts.
std::string to_text(const NetworkOptions& network);

}  // namespace stretto
