#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/data_type.h"

namespace stretto {

/// The number of a buffer of a schedule, from 0, in the order in which they were declared.
using BufferId = std::uint32_t;
/// The number of an operation of a schedule, from 0, in the order in which they were added.
using OpId = std::uint32_t;
/// No buffer: a message without a body.
inline constexpr BufferId kNoBuffer = std::numeric_limits<BufferId>::max();
/// No operation.
inline constexpr OpId kNoOp = std::numeric_limits<OpId>::max();
/// Operations of one schedule: as many as an OpId can tell apart.
inline constexpr std::uint64_t kMaxOps = kNoOp;
/// Of one buffer, so that its size in bytes and the end of a slice can be computed.
inline constexpr std::uint64_t kMaxBufferBytes = std::uint64_t{1} << 62;
/// Schedules use the channels 0 … kNumChannels−1; the engine that runs them uses those beyond.
inline constexpr std::uint16_t kNumChannels = 0xff00;

/// `count` elements of a buffer from `offset` on. A send or recv without a buffer moves nothing but itself.
struct Slice {
  BufferId buffer = kNoBuffer;                                   ///< of the same schedule
  std::uint64_t offset = 0;                                      ///< in elements
  std::uint64_t count = 0;                                       ///< in elements
  friend bool operator==(const Slice&, const Slice&) = default;  ///< all fields are equal
};

/// Memory that a schedule names. It is bound when a round runs: given buffers by the owner, scratch by the engine.
struct BufferSpec {
  /// Whose memory it is.
  enum class Role : std::uint8_t {
    given,    ///< bound by the owner for each round (a contribution, a result)
    scratch,  ///< the engine provides it for the time of a round
  };
  std::string name;                   ///< for people; need not be unique
  DataType type = DataType::float32;  ///< of an element
  std::uint64_t count = 0;            ///< elements
  Role role = Role::given;            ///< whose memory it is
};

/// The kind of an operation.
enum class OpKind : std::uint8_t {
  send,    ///< src → peer
  recv,    ///< peer → dst
  reduce,  ///< dst = src ⊕ other
  copy,    ///< dst = src
  delay,   ///< a timer; in a simulation also a computation
  call,    ///< a hook of the owner, which may complete it later
  nop,     ///< nothing
};
/// "send", "recv", …
const char* name_of(OpKind kind);

/// One operation. It fires once in a round, when `need` of its predecessors have finished, however many more finish
/// later (consumable). An operation with need = 0 fires when the round opens.
///
/// A buffer may be empty in a round, as a whole. Scratch is empty at its start; a buffer given for a result ought to
/// be. A send of an empty buffer has no body; recv and copy make dst empty where src was, and not empty where it was
/// not (a slice of no elements changes neither); a reduce of one empty buffer and one that is not copies that one, of
/// two empty ones it changes nothing. Whether dst was empty makes no difference to any of them. Metadata travels beside
/// the data, whether there is any or not, where `with_header` says so: a send appends the header of src's buffer, recv
/// and copy overwrite that of dst's, a reduce merges into it. A send has finished when its src may be overwritten;
/// whether src is empty is decided when it fires.
struct Op {
  OpKind kind = OpKind::nop;  ///< decides which of the other fields count
  bool external = false;      ///< waits for a trigger from outside as if for one more predecessor
  bool with_header = false;   ///< send, recv, reduce, copy: the header of the buffer travels, or is merged, too
  ReduceOp reduce_op = ReduceOp::sum;  ///< reduce
  std::uint16_t channel = 0;           ///< send, recv: pairs the two within a round and a pair of ranks
  std::uint32_t need = 0;              ///< how many predecessors must have finished
  std::uint32_t hook = 0;              ///< call: which one; passed to the owner
  std::int32_t peer = -1;              ///< send, recv: the other rank
  Slice dst;                           ///< recv, reduce, copy
  Slice src;                           ///< send, reduce, copy
  Slice other;                         ///< reduce: the second, which matters for the bits of ±0 and NaN
  Duration delay{0};                   ///< delay: from when it fires to its end
};

/// A collective as one rank sees it: a DAG of operations as plain data. Immutable; shared by all rounds and threads.
/// Built by ScheduleBuilder.
class Schedule {
 public:
  int rank() const { return rank_; }                 ///< whose part of the collective it is
  int ranks() const { return ranks_; }               ///< of the collective
  const std::string& name() const { return name_; }  ///< for people, and part of what ranks compare

  std::span<const Op> ops() const { return ops_; }  ///< by OpId
  const Op& op(OpId id) const { return ops_[id]; }  ///< Requires: id < ops().size(), here and below.
  /// The operations that come after `id`, ascending.
  std::span<const OpId> successors(OpId id) const {
    return {edges_.data() + first_edge_[id], edges_.data() + first_edge_[id + 1]};
  }
  /// How many operations `id` comes after, without a trigger from outside.
  std::uint32_t num_predecessors(OpId id) const { return num_predecessors_[id]; }
  std::span<const BufferSpec> buffers() const { return buffers_; }  ///< by BufferId
  const std::string& label(OpId id) const;                          ///< empty where it has none

  /// The round is complete on this rank when this operation has finished.
  OpId completion() const { return completion_; }
  /// The operation with this label. Throws UsageError if there is none.
  OpId find(const std::string& label) const;
  /// The same schedule run by some ranks of a job of `ranks`: rank i of this schedule is rank members[i] of the job.
  /// Throws UsageError unless the members are different ranks of the job, one for each rank of the schedule.
  Schedule among(std::span<const int> members, int ranks) const;
  /// Largest channel used plus one.
  std::uint16_t num_channels() const { return num_channels_; }

 private:
  friend class ScheduleBuilder;
  std::string name_;
  int rank_ = 0;
  int ranks_ = 1;
  OpId completion_ = kNoOp;
  std::uint16_t num_channels_ = 0;
  std::vector<Op> ops_;
  std::vector<OpId> edges_;
  std::vector<std::uint32_t> first_edge_;
  std::vector<std::uint32_t> num_predecessors_;
  std::vector<BufferSpec> buffers_;
  std::map<OpId, std::string> labels_;  // few have one
};

/// An operation in words: `recv #3 "activate.from.0" (from rank 0, channel 0)`.
std::string describe(const Schedule& schedule, OpId id);
/// The predecessors of each operation, ascending.
std::vector<std::vector<OpId>> predecessors_of(const Schedule& schedule);
/// Bytes that a send or recv moves where its buffer is not empty; bytes that a reduce or copy writes; else 0.
std::uint64_t bytes_of(const Schedule& schedule, const Op& op);

}  // namespace stretto
