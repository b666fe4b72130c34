#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// Some ranks of a job, which reduce tensors among themselves, as one of the job's ranks sees them. Immutable.
class ProcessSet {
 public:
  /// Number `number` of the job's sets. `members`: different ranks of the job, ascending. `rank`: this one.
  ProcessSet(int number, std::vector<int> members, int rank) : number_(number), members_(std::move(members)) {
    const auto at = std::ranges::find(members_, rank);
    if (at != members_.end()) me_ = static_cast<int>(at - members_.begin());
  }

  int number() const { return number_; }                                                ///< as TensorDescription::set
  int size() const { return static_cast<int>(members_.size()); }                        ///< members
  const std::vector<int>& members() const { return members_; }                          ///< ranks of the job
  int rank_of(int member) const { return members_[static_cast<std::size_t>(member)]; }  ///< of the job
  bool has_this_rank() const { return me_ >= 0; }                                       ///< whether it is a member
  int me() const { return me_; }                                                        ///< this rank's place, or −1

  /// The place of a rank of the job, or −1.
  int member(int rank) const {
    const auto at = std::ranges::find(members_, rank);
    return at == members_.end() ? -1 : static_cast<int>(at - members_.begin());
  }
  /// "set 1 of ranks 0, 2, 3".
  std::string to_text() const {
    std::string out = text("set ", number_, " of ranks ");
    for (const int rank : members_) out += text(rank == members_.front() ? "" : ", ", rank);
    return out;
  }

 private:
  int number_;
  std::vector<int> members_;
  int me_ = -1;
};

/// Steps of training, from 0; the same on every member of a process set.
using StepNumber = std::uint64_t;
/// Fused buffers of a process set, from 0 over the whole run; the same on every member.
using SequenceNumber = std::uint64_t;
/// A tensor on this rank: its place among the descriptions that the orderer of its process set knows of
/// (Orderer::tensor()). A name that is described anew has another one. Other ranks may have another for the same
/// tensor.
using TensorId = std::uint32_t;

/// One collective over the tensors of one process set, type and operation, which lie one behind the other.
struct FusedBuffer {
  SequenceNumber number = 0;        ///< of the set's sequence
  StepNumber step = 0;              ///< to which all of its tensors belong
  std::vector<TensorId> tensors;    ///< in order; none: the buffer ends its step and carries its header alone
  std::uint64_t sequence_hash = 0;  ///< of names and sizes in all buffers up to this one: equal on every member
  std::vector<bool> brought;        ///< by place in `tensors`: this rank has submitted it; else it brings a null
  bool changed = false;             ///< this rank leaves the plan with this buffer
  bool drained = false;             ///< this rank has no further steps
};

/// The members' flags beside the tensors of a buffer, the same on every member.
struct BufferHeader {
  bool changed = false;      ///< some member left the plan with this buffer
  bool all_drained = false;  ///< no member has further steps
};

/// The next action of the state machine of a process set. Control collectives have numbers of their own, 0, 1, 2, …,
/// the same on every member; the k-th is matched with the k-th of the others.
struct OrdererAction {
  /// The kind of the action; behind each kind the fields that say more.
  enum class Kind {
    sync,       ///< allreduce `words` by bitwise AND
    gather,     ///< `bytes` of each member go to the first one
    broadcast,  ///< `bytes` of the first member go to all
    minimum,    ///< allreduce `nap` by its minimum
    tell,       ///< `bytes` go to member `to`, beside the control collectives: Orderer::told() there
    issue,      ///< begin the collective of `buffer`
    sleep,      ///< ask again at `until`, whatever happens until then
    wait,       ///< ask again after the next event, or at `until`
    fail,       ///< the job fails with `error`
    end,        ///< nothing more will come: every member has drained
  };
  Kind kind = Kind::wait;                ///< of the fields below only those that it names mean something
  std::uint64_t control = 0;             ///< number of the control collective
  std::vector<std::uint64_t> words;      ///< sync
  std::vector<std::byte> bytes;          ///< gather, broadcast (of the first member), tell
  int to = 0;                            ///< tell
  Duration nap{0};                       ///< minimum
  TimePoint until = TimePoint::never();  ///< sleep, wait
  FusedBuffer buffer;                    ///< issue
  std::optional<Error> error;            ///< fail
};

/// The result of a control collective on this rank.
struct ControlResult {
  std::uint64_t control = 0;                     ///< its number
  std::vector<std::uint64_t> words;              ///< sync: of all members
  std::vector<std::vector<std::byte>> gathered;  ///< gather: on the first member, by member; empty elsewhere
  std::vector<std::byte> bytes;                  ///< broadcast
  Duration nap{0};                               ///< minimum
};

/// The fate of a buffer whose collective is complete.
struct BufferOutcome {
  SequenceNumber number = 0;  ///< of the buffer
  bool valid = false;         ///< false: its sums are thrown away, and its tensors come again in a later buffer
};

/// Decides which tensors of a process set are reduced when, and which of them together: on one rank, without thread,
/// transport or clock. Inputs are events, outputs are actions. Owned by one thread at a time.
class Orderer {
 public:
  virtual ~Orderer() = default;  ///< at any time

  /// Makes the tensor known here, if it is not, and returns its id: the same for equal descriptions, and another one
  /// for another description of the same name.
  virtual TensorId tensor(const TensorDescription& description) = 0;
  /// As it was described, for ever: also of tensors in OrdererAction::buffer that only other ranks have described.
  /// Requires: known.
  virtual const TensorDescription& description(TensorId id) const = 0;

  /// The application has handed the tensor over, in its step. Returns an error (Errc::bad_input) for the second time
  /// that its name comes in a step, and for a step that has ended.
  virtual Result<void> submitted(TensorId id, StepNumber step) = 0;
  /// Hands over the graph that this rank has executed in the step, all process sets, before step_ended(): for orderers
  /// that plan by it.
  virtual void executed(StepNumber step, const ExecutedGraph& graph) = 0;
  /// The application submits nothing more in this step.
  virtual void step_ended(StepNumber step) = 0;
  /// No further steps here. The orderer goes on to answer the others until OrdererAction::Kind::end.
  virtual void drained() = 0;
  /// The application waits for this tensor since `since`, and submits nothing until it is reduced; nothing: it waits no
  /// longer.
  virtual void blocked(std::optional<TensorId> on, TimePoint since) = 0;
  /// The control collective `result.control` is complete.
  virtual void control(const ControlResult& result) = 0;
  /// Member `member` has said `bytes` (OrdererAction::Kind::tell): those of one member in the order in which it has.
  /// Errc::bad_input where they cannot be read, and by an orderer whose members tell each other nothing.
  virtual Result<void> told(int member, std::span<const std::byte> bytes);
  /// The collective of a buffer is complete: in the order of numbers.
  virtual void completed(SequenceNumber number, const BufferHeader& header) = 0;

  /// The action at `now`. Called again at once after each action but sleep, wait, fail and end. After an event of one
  /// process set the orderers of all sets of this rank are asked that wait.
  virtual OrdererAction next(TimePoint now) = 0;
  /// Once after it has changed, the plan that the open step follows: its tensors by buffer. Those of one buffer are
  /// issued as soon as all of them and of the buffers before it are submitted, the last one after the end of the step:
  /// between these, a submission needs no look. Empty: no plan.
  virtual std::optional<std::vector<std::vector<TensorId>>> take_plan() { return std::nullopt; }
  /// Buffers that have become valid or void since the last call, in order.
  virtual std::vector<BufferOutcome> take_outcomes() = 0;
  /// Steps that are closed on all members: end_step() of those below returns.
  virtual StepNumber closed() const = 0;
  /// Steps in which some member has left the plan; 0 without plans.
  virtual std::uint64_t deviations() const { return 0; }
  /// Lines for a person to read, each once: "step 812: rank 3 has no gradient for head.b.weight; …".
  virtual std::vector<std::string> take_lines() = 0;
};

inline Result<void> Orderer::told(int member, std::span<const std::byte>) {
  return Error{Errc::bad_input, text("member ", member, " tells something, and nothing was to be told")};
}

}  // namespace stretto
