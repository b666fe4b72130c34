#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/observe/round_header.h"
#include "stretto/schedule/schedule.h"
#include "stretto/transport/transport.h"

namespace stretto {

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
  /// Once a step: look at what the application has done since.
  virtual void poll(TimePoint now) = 0;
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

  /// Registers a collective; in the same order on every rank. `owner` must outlive the engine's last step.
  CollectiveId add(RoundOwner& owner);

  /// Starts an instance of `schedule` for `round`. `note` travels in all its envelopes.
  /// Requires: not open. The schedule must outlive the round.
  void open(CollectiveId id, Round round, const Schedule& schedule, std::uint64_t note);
  bool is_open(CollectiveId id, Round round) const;
  /// Binds memory to a given buffer. Requires: before any operation uses it.
  void bind(CollectiveId id, Round round, BufferId buffer, RoundBuffer memory);
  RoundBuffer buffer(CollectiveId id, Round round, BufferId buffer) const;
  /// The header that belongs to a buffer in a round.
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

 private:
  class Rounds;  // the open rounds of one collective

  std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void end(int peer) override;
  void sent(SendToken token) override;
  void lost(int peer, const Error& reason) override;

  Transport& transport_;
  const Clock& clock_;
  std::vector<std::unique_ptr<Rounds>> collectives_;
};

}  // namespace stretto
