#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/engine/blocks.h"
#include "stretto/engine/codec.h"
#include "stretto/engine/inbox.h"
#include "stretto/engine/liveness.h"
#include "stretto/engine/traffic.h"
#include "stretto/observe/round_header.h"
#include "stretto/schedule/schedule.h"
#include "stretto/transport/transport.h"

namespace stretto {

struct Instance;
class PreparedSchedule;

/// Channels from here on are control messages: not matched with a schedule, handed to the owner.
inline constexpr std::uint16_t kControlChannel = 0xff00;

/// A control message of the engine's own: what the sender's collective is, cut where it does not fit. Without a head:
/// that the sender has made it, to the next rank. Ranks that differ meet somewhere round the ring.
inline constexpr std::uint16_t kDescriptionChannel = 0xffff;

/// Memory bound to a buffer of a round.
struct RoundBuffer {
  std::byte* data = nullptr;  ///< null with present = true: a simulated payload of the right length
  bool present = false;       ///< false: empty in this round
};

/// A client of an engine: a collective whose rounds run on schedules (RoundOwner), or one that needs the engine for its
/// control messages and for hearing of lost ranks alone. All calls come from inside Engine::step() (or the Engine call
/// that caused them), on the driving thread.
class EngineClient {
 public:
  virtual ~EngineClient() = default;  ///< after Engine::remove(), or the engine's last step
  /// Once a step: look at what the application has done since. Returns whether it did something beside the schedules.
  virtual bool poll(TimePoint now) = 0;
  /// Latest time of the next poll() without a ring.
  virtual TimePoint poll_by() const { return TimePoint::never(); }
  /// A control message.
  virtual void control(int peer, const Envelope& envelope, std::span<const std::byte> head) = 0;
  /// The peer is gone, and how. Also called for a peer that was lost before this client was added.
  virtual void lost(int peer, const Error& reason) = 0;
  /// The peer has left in order: it answers nothing any more. `reason` says so, for a round that still needs it. Also
  /// called for a peer that had left before this client was added.
  virtual void left(int /*peer*/, const Error& /*reason*/) {}
  /// Rank `reason.rank` has sent a message that does not belong to the collective as this rank runs it. The message is
  /// thrown away; the client fails, and tells the other ranks. May be called again.
  virtual void broken(const Error& reason) = 0;
};

/// Owns a collective whose rounds run on schedules: decides which rounds run and when, binds their buffers, hears of
/// their ends.
class RoundOwner : public EngineClient {
 public:
  /// A schedule message of `round` has come. Returns whether to take it; may open the round. A message of a
  /// round that is not open afterwards is kept until it is.
  virtual bool admit(Round round, const Envelope& envelope) = 0;
  /// A call operation has fired. Returns whether it is finished; if not, Engine::finish() ends it later.
  virtual bool call(Round round, OpId op, std::uint32_t hook) = 0;
  /// The completion operation has finished; the round's buffers and headers are still there. Messages that come from
  /// here on are thrown away.
  virtual void completed(Round round) = 0;
  /// All sends have left, and no message is being received into the round's buffers: nobody touches them any more.
  virtual void retired(Round round) = 0;
};

/// A thread beside the application's that steps an engine, and lets go of it when asked to. Application thread.
class EngineStepper {
 public:
  virtual ~EngineStepper() = default;  ///< after Engine::set_stepper() of another one, or of none
  /// Returns once it has let go.
  virtual void pause() = 0;
  /// Lets it step the engine again.
  virtual void resume() = 0;
};

/// Runs the rounds of any number of collectives over one transport. A state machine without a thread:
/// one caller at a time, in a real process an EngineDriver, in a simulation the cluster.
class Engine final : private MessageSink {
 public:
  /// Transport and clock must outlive the engine.
  Engine(Transport& transport, const Clock& clock, InboxLimits limits = {});
  ~Engine() override;  ///< after its collectives, and with no thread that steps it

  /// While one lives nobody else steps the engine: collectives are made and dropped inside one. Application thread,
  /// not inside step(). Nests.
  class Pause {
   public:
    explicit Pause(Engine& engine);  ///< returns once the thread that steps has let go
    ~Pause();                        ///< lets it go on, at the end of the outermost
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Engine& engine_;
  };

  /// Registers a collective; in the same order and with the same description (base/description.h) on every rank. Each
  /// rank tells the next one. No message is taken from a rank that describes it otherwise: EngineClient::broken() names
  /// both, on every rank.
  /// Requires: a Pause that lives until it can be called. It must outlive remove(), or else the engine's last step.
  /// Throws UsageError where another thread may step the engine, and after 65,536 collectives.
  CollectiveId add(RoundOwner& owner, std::string description = "") {
    return add(owner, &owner, std::move(description));
  }
  /// The same for a collective without schedules.
  CollectiveId add(EngineClient& client, std::string description = "") {
    return add(client, nullptr, std::move(description));
  }
  /// Bodies of a collective's messages are encoded, on every rank. Requires: no message of it has been sent or has
  /// come, so in the call that adds it; the codec outlives remove().
  void set_codec(CollectiveId id, BodyCodec& codec) { collectives_[id].codec = &codec; }
  /// Forgets a collective: what still comes for it is thrown away. In the middle of one of its rounds the engine does
  /// not step any more, since the transport may be writing to memory of that round.
  void remove(CollectiveId id);
  /// Says which thread beside the application's steps the engine from now on; null: none.
  void set_stepper(EngineStepper* stepper) { stepper_ = stepper; }

  /// Has texts for people name ranks by these, in order, where their numbers mean little: "member 5". Requires: nothing
  /// steps it yet.
  void name_ranks(std::vector<std::string> names) { names_ = std::move(names); }
  /// "rank 3", or as name_ranks() says. Any thread.
  std::string name_of(int rank) const;

  /// Starts an instance of `schedule` for `round`. `note` travels in all its envelopes.
  /// Requires: not open. The schedule must outlive the collective, or forget().
  void open(CollectiveId id, Round round, const Schedule& schedule, std::uint64_t note);
  /// Forgets what has been prepared for a schedule. Requires: each round opened with it has retired.
  void forget(CollectiveId id, const Schedule& schedule);
  /// Whether open() has been called for a round that has not retired.
  bool is_open(CollectiveId id, Round round) const;
  /// Whether an open round that is not complete has a receive for which nothing of `peer` has come.
  bool lacks(CollectiveId id, Round round, int peer) const;
  /// Binds memory to a given buffer. Requires: open; before any operation uses it.
  void bind(CollectiveId id, Round round, BufferId buffer, RoundBuffer memory);
  /// The memory bound to a buffer, or provided for it by the engine. Requires: open.
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

  /// Stops the engine for good: it steps no more. Returns once no step is under way, at once where it is frozen
  /// already. Where an EngineDriver has a helper thread any thread but that one may call it, while the application
  /// computes or waits, but not inside an Engine::Pause; the driver must have been made before, and end after. Where
  /// there is none, the thread that steps the engine calls it, between two steps.
  void freeze();
  /// Whether freeze() has taken effect: no step is under way, and none follows. Who takes a result reads first how many
  /// rounds are complete, and then this: where it answers no, whoever has frozen the engine counts as many complete
  /// rounds, or more. Thread-safe.
  bool frozen() const { return stop_.load(std::memory_order_seq_cst) == Stop::frozen; }

  int rank() const { return transport_.rank(); }                   ///< of the transport
  int size() const { return transport_.size(); }                   ///< ranks of the transport
  const Clock& clock() const { return clock_; }                    ///< of deadlines and delays
  Doorbell& doorbell() { return transport_.doorbell(); }           ///< where the thread that drives this sleeps
  const Members& members() const { return transport_.members(); }  ///< of the transport
  /// The host of this rank, and the memory that its ranks share.
  Host host() { return transport_.host(); }
  /// Which ranks are still there. A collective hears of one that leaves or is lost after all that it has sent.
  const Liveness& liveness() const { return liveness_; }
  /// When something last came from `peer`.
  TimePoint last_heard(int peer) const { return inbox_.last_heard(peer); }
  /// All that this rank has sent through the engine. Any thread.
  Traffic traffic() const { return traffic_.read(); }

 private:
  struct Timer {
    TimePoint at;
    RunningOp op;
  };
  struct Collective {
    EngineClient* client = nullptr;  // null: removed
    RoundOwner* owner = nullptr;     // the client, if its rounds run on schedules; else null
    BodyCodec* codec = nullptr;      // null: bodies go as they are
    std::string description;
    std::uint64_t hash = 0;           // of the description
    bool described = false;           // all ranks have been sent the description, since one has another
    std::uint32_t told = 0;           // so many of departures_
    std::vector<std::uint32_t> open;  // indices of instances
    std::unordered_map<const Schedule*, std::unique_ptr<PreparedSchedule>> prepared;
  };
  struct Departure {
    int peer;
    bool in_order;
    Error reason;
  };

  std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void end(int peer) override;
  void sent(SendToken token) override;
  void lost(int peer, const Error& reason) override;
  void left(int peer) override;

  /// Why the engine does not step.
  enum class Stop : std::uint32_t {
    none,      // it does
    halted,    // a collective was removed in the middle of a round
    freezing,  // freeze() has been called: the thread that would step next says that it does not
    frozen,
  };

  void do_not_step();
  CollectiveId add(EngineClient& client, RoundOwner* owner, std::string description);
  void depart(Departure departure);
  bool tell_departures();
  void describe(CollectiveId id);
  void disagree(int peer, const Envelope& envelope, std::span<const std::byte> head);
  void mistake_round(Envelope& envelope) const;
  Instance* find(CollectiveId id, Round round) const;
  Instance& get(CollectiveId id, Round round) const;
  Instance* alive(const RunningOp& op) const;
  const PreparedSchedule& prepare(CollectiveId id, const Schedule& schedule);
  void take_kept(const Instance& instance);
  void redeliver(Kept message);
  bool claim();
  void broken(const Collective& collective, const Envelope& envelope, int peer, const std::string& what) const;
  void tell_of_flood();
  std::byte* keep(Arriving& arriving, int peer, const Envelope& envelope, std::span<const std::byte> head);
  void kept(Kept message);
  std::byte* begin_receive(Instance& instance, int peer, const Envelope& envelope, std::span<const std::byte> head,
                           Arriving& arriving);
  RoundHeader& header_for(Instance& instance, OpId op);
  void accept(Instance& instance, OpId op, bool in_place);
  std::span<const std::byte> encoded(Instance& instance, OpId op, BodyCodec& codec, std::span<const std::byte> body);
  void give_back_encoded(Instance& instance, OpId op);
  std::byte* begin_encoded(int peer, const Envelope& envelope, RunningOp op, Arriving& arriving);
  std::byte* begin_unwanted(int peer, const Envelope& envelope, Arriving& arriving);
  void end_encoded(Arriving& arriving);

  void finished(Instance& instance, OpId op);
  void fire(Instance& instance, OpId op);
  void send(int peer, const Envelope& envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token);
  void fire_send(Instance& instance, OpId op);
  void fire_recv(Instance& instance, OpId op);
  void fire_reduce(Instance& instance, const Op& op);
  void fire_copy(Instance& instance, const Op& op);
  void provide(Instance& instance, BufferId buffer);
  bool run_timers(TimePoint now);
  bool run_ready();
  void retire_completed();
  void leave_bodies_behind(Instance& instance);

  Transport& transport_;
  const Clock& clock_;
  std::vector<std::string> names_;    // of ranks; empty: their numbers
  EngineStepper* stepper_ = nullptr;  // the application thread's, as pauses_
  int pauses_ = 0;
  // The store of `frozen` by the thread that steps, or by freeze() where none does, is released to freeze() and
  // frozen(): all that the last step has written is visible after them.
  std::atomic<Stop> stop_{Stop::none};
  BlockPool pool_;
  FreeHeaders free_headers_;  // of early messages
  Inbox inbox_;
  std::vector<Collective> collectives_;  // by id
  std::vector<CollectiveId> alive_;      // those that are not removed, in order
  std::vector<Departure> departures_;    // in the order in which the transport told of them
  Liveness liveness_;
  std::optional<Error> flood_;  // of messages for collectives this rank has not registered
  std::size_t told_of_flood_ = 0;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<std::uint32_t> free_;       // indices of instances not in use
  std::vector<std::uint32_t> completed_;  // instances that wait to be retired
  std::vector<RunningOp> ready_;          // first in, first out from ready_begin_
  std::size_t ready_begin_ = 0;
  std::vector<Timer> timers_;    // a heap, earliest first
  std::vector<std::byte> head_;  // of the message being sent
  TrafficCounter traffic_;
};

}  // namespace stretto
