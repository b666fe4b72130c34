#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/engine/blocks.h"
#include "stretto/observe/round_header.h"
#include "stretto/schedule/schedule.h"
#include "stretto/transport/transport.h"

namespace stretto {

struct Instance;
class PreparedSchedule;

using CollectiveId = std::uint16_t;

/// Channels from here on are control messages: not matched with a schedule, handed to the owner.
inline constexpr std::uint16_t kControlChannel = 0xff00;

/// Memory bound to a buffer of a round.
struct RoundBuffer {
  std::byte* data = nullptr;  ///< null with present = true: a simulated payload of the right length
  bool present = false;       ///< false: empty in this round
};

/// Owns a collective: decides which rounds run and when, binds their buffers, hears of their ends.
/// All calls come from inside Engine::step() (or the Engine call that caused them), on the driving thread.
class RoundOwner {
 public:
  virtual ~RoundOwner() = default;
  /// A schedule message of `round` has come. Returns whether to take it; may open the round. A message of a
  /// round that is not open afterwards is kept until it is.
  virtual bool admit(Round round, const Envelope& envelope) = 0;
  /// A call operation has fired. Returns whether it is finished; if not, Engine::finish() ends it later.
  virtual bool call(Round round, OpId op, std::uint32_t hook) = 0;
  /// The completion operation has finished; the round's buffers and headers are still there.
  virtual void completed(Round round) = 0;
  /// All sends have left, too: the engine touches the round's buffers no more.
  virtual void retired(Round round) = 0;
  /// A control message.
  virtual void control(int peer, const Envelope& envelope, std::span<const std::byte> head) = 0;
  virtual void lost(int peer, const Error& reason) = 0;
  /// Once a step: look at what the application has done since. Returns whether it did something beside the schedules.
  virtual bool poll(TimePoint now) = 0;
  /// Latest time of the next poll() without a ring.
  virtual TimePoint poll_by() const { return TimePoint::never(); }
};

/// Runs the rounds of any number of collectives over one transport. A state machine without a thread:
/// one caller at a time, in a real process an EngineDriver, in a simulation the cluster.
class Engine final : private MessageSink {
 public:
  /// Both must outlive the engine.
  Engine(Transport& transport, const Clock& clock);
  ~Engine() override;

  /// Registers a collective; in the same order on every rank. `owner` must outlive the engine's last step. Throws
  /// UsageError while a thread drives the engine, which would look at the list meanwhile.
  CollectiveId add(RoundOwner& owner);
  /// Says whether a thread other than the application's drives the engine from now on.
  void set_driven(bool driven) { driven_ = driven; }

  /// Starts an instance of `schedule` for `round`. `note` travels in all its envelopes.
  /// Requires: not open. The schedule must outlive the engine.
  void open(CollectiveId id, Round round, const Schedule& schedule, std::uint64_t note);
  bool is_open(CollectiveId id, Round round) const;
  /// Binds memory to a given buffer. Requires: open; before any operation uses it.
  void bind(CollectiveId id, Round round, BufferId buffer, RoundBuffer memory);
  RoundBuffer buffer(CollectiveId id, Round round, BufferId buffer) const;
  /// The header that belongs to a buffer in a round. Requires: some operation carries it.
  RoundHeader& header(CollectiveId id, Round round, BufferId buffer);
  /// Fires an external operation (at most once a round; later calls do nothing).
  void trigger(CollectiveId id, Round round, OpId op);
  /// Ends a call operation that answered "not yet".
  void finish(CollectiveId id, Round round, OpId op);
  /// Sends the owner of the same collective on `peer` a control message.
  void send_control(CollectiveId id, int peer, std::uint16_t channel, Round round, std::uint64_t note,
                    std::span<const std::byte> head);

  /// Does what can be done now. Returns whether anything was done.
  bool step();
  /// Latest time of the next step() without a ring of the doorbell.
  TimePoint step_by() const;

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  const Clock& clock() const { return clock_; }
  Doorbell& doorbell() { return transport_.doorbell(); }
  /// Memory that all ranks share, or null.
  SharedArena* arena() { return transport_.arena(); }
  /// When something last came from `peer`.
  TimePoint last_heard(int peer) const { return last_heard_[static_cast<std::size_t>(peer)]; }

 private:
  struct Ready {
    std::uint32_t instance;
    std::uint32_t generation;
    OpId op;
  };
  struct Timer {
    TimePoint at;
    Ready op;
  };
  /// A message of a round that is not open yet.
  struct Kept {
    int peer;
    Envelope envelope;
    std::vector<std::byte> head;
    Block body;
  };
  struct Collective {
    RoundOwner* owner;
    std::vector<std::uint32_t> open;  // indices of instances
    std::vector<Kept> kept;
  };
  /// Where the body of the message goes that a peer is in the middle of.
  struct Arriving {
    enum class To { nowhere, buffer, early, kept } to = To::nowhere;
    Ready op{};
    bool present = false;
    Kept kept{};
  };

  std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void end(int peer) override;
  void sent(SendToken token) override;
  void lost(int peer, const Error& reason) override;

  void mistake_round(Envelope& envelope) const;
  Instance* find(CollectiveId id, Round round) const;
  Instance& get(CollectiveId id, Round round) const;
  Instance* alive(const Ready& op) const;
  const PreparedSchedule& prepare(const Schedule& schedule);
  void take_kept(Instance& instance);
  void redeliver(Kept message);
  bool claim();
  std::byte* begin_receive(Instance& instance, int peer, const Envelope& envelope, std::span<const std::byte> head,
                           Arriving& arriving);
  void accept(Instance& instance, OpId op, bool in_place);

  void finished(Instance& instance, OpId op);
  void fire(Instance& instance, OpId op);
  void fire_send(Instance& instance, OpId op);
  void fire_recv(Instance& instance, OpId op);
  void fire_reduce(Instance& instance, const Op& op);
  void fire_copy(Instance& instance, const Op& op);
  void provide(Instance& instance, BufferId buffer);
  bool run_timers(TimePoint now);
  bool run_ready();
  void retire_completed();

  Transport& transport_;
  const Clock& clock_;
  bool driven_ = false;  // the application thread's
  BlockPool pool_;
  std::vector<std::unique_ptr<PreparedSchedule>> prepared_;
  std::vector<Collective> collectives_;
  std::vector<Kept> unclaimed_;  // of collectives this rank has not registered yet
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<std::uint32_t> free_;       // indices of instances not in use
  std::vector<std::uint32_t> completed_;  // instances that wait for their sends
  std::vector<Ready> ready_;              // first in, first out from ready_begin_
  std::size_t ready_begin_ = 0;
  std::vector<Timer> timers_;          // a heap, earliest first
  std::vector<Arriving> arriving_;     // per peer
  std::vector<TimePoint> last_heard_;  // per peer
  std::vector<std::byte> head_;        // of the message being sent
};

}  // namespace stretto
