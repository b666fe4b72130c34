#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// How many predecessors an operation waits for.
struct Need {
  static constexpr Need all() { return {-1}; }        ///< AND
  static constexpr Need any() { return {1}; }         ///< OR
  static constexpr Need count(int k) { return {k}; }  ///< a threshold, from 1 to the number of predecessors
  int value = -1;                                     ///< −1: all
};

/// The operations another one comes after; kNoOp among them stands for none.
class After {
 public:
  /// As written in a call: `{}`, `{a, b}`.
  After(std::initializer_list<OpId> ops) : ops_(ops) {}  // NOLINT(google-explicit-constructor)
  /// As put together before.
  After(std::vector<OpId> ops) : ops_(std::move(ops)) {}  // NOLINT(google-explicit-constructor)
  const std::vector<OpId>& ops() const { return ops_; }   ///< in the order given

 private:
  std::vector<OpId> ops_;
};

/// Puts a schedule together for one rank. The public way to define a collective of one's own.
///
///     ScheduleBuilder b("pair", rank, 2);
///     auto mine = b.buffer("mine", DataType::float32, n);
///     auto theirs = b.scratch("theirs", DataType::float32, n);
///     auto s = b.send(1 - rank, 0, b.whole(mine), {});
///     auto r = b.recv(1 - rank, 0, b.whole(theirs), {});
///     auto sum = b.reduce(b.whole(mine), b.whole(theirs), ReduceOp::sum, {s, r});
///     Schedule schedule = b.build(sum);
///
/// An operation comes after those that its last argument names, and after no others: two that touch the same memory
/// need an edge between them, directly or through others. docs/own_collective.md goes through it with examples. Throws
/// UsageError where an argument names an operation, buffer or channel that cannot exist. One thread.
class ScheduleBuilder {
 public:
  /// The part of rank `rank` of `ranks`, 0 ≤ rank < ranks. `name` is shown in messages and when printed.
  ScheduleBuilder(std::string name, int rank, int ranks);

  int rank() const { return schedule_.rank_; }    ///< as given
  int ranks() const { return schedule_.ranks_; }  ///< as given

  /// A buffer of `count` elements that the caller gives for each round: an argument of ScheduledCollective::run(), in
  /// the order of these calls. At most kMaxBufferBytes. `name` is shown when printed.
  BufferId buffer(std::string name, DataType type, std::uint64_t count);
  /// A buffer that the engine provides for the time of a round, empty at its start (Op says what that means).
  BufferId scratch(std::string name, DataType type, std::uint64_t count);
  /// All elements of a buffer.
  Slice whole(BufferId buffer) const;
  /// The declaration of a buffer; valid until the next buffer is declared.
  const BufferSpec& spec(BufferId buffer) const;

  /// Sends `src` to rank `peer`; finished when `src` may be overwritten. `channel`, below kNumChannels, pairs it with
  /// the recv there: once from one rank to another. A Slice() sends a message without a body.
  OpId send(int peer, int channel, Slice src, After after);
  /// Receives into `dst` what rank `peer` sends on `channel`: as many bytes. May fire before the message comes: that
  /// costs nothing, and saves a copy.
  OpId recv(int peer, int channel, Slice dst, After after);
  /// `dst` = `dst` ⊕ `src`, element by element: of one type, which has the operation, and count, without overlap.
  OpId reduce(Slice dst, Slice src, ReduceOp op, After after) { return reduce(dst, dst, src, op, std::move(after)); }
  /// The same, `dst` = `first` ⊕ `second`. `dst` may be one of the two, and else overlaps neither.
  OpId reduce(Slice dst, Slice first, Slice second, ReduceOp op, After after);
  /// `dst` = `src`: of one type and count, without overlap.
  OpId copy(Slice dst, Slice src, After after);
  /// Finished `duration`, 0 or more, after it fires.
  OpId delay(Duration duration, After after);
  /// Calls the owner with `hook`, a number of the caller's: ScheduledCollective::on_call(), RoundOwner::call().
  OpId call(std::uint32_t hook, After after);
  /// Does nothing: joins its predecessors.
  OpId nop(After after);

  /// Adds a predecessor to an operation that exists. One that is there already counts once.
  void add_after(OpId op, OpId predecessor);
  ScheduleBuilder& need(OpId op, Need need);           ///< default: all
  ScheduleBuilder& external(OpId op);                  ///< waits for Engine::trigger, as for one more predecessor
  ScheduleBuilder& with_header(OpId op);               ///< send, recv, reduce, copy: Op::with_header
  ScheduleBuilder& label(OpId op, std::string label);  ///< shown when printed; unique

  /// Checks the DAG and freezes it: cycles, need out of range, slices outside their buffers, sources and destinations
  /// that differ or overlap, peers outside the job, a channel used twice towards one peer, labels given twice.
  /// `completion`: the round is complete on this rank when this operation has finished.
  /// Throws UsageError naming the operations. The builder can go on afterwards.
  Schedule build(OpId completion) const;

 private:
  OpId add(const Op& op, const After& after);
  OpId add_message(OpKind kind, int peer, int channel, Slice slice, const After& after);
  BufferId add_buffer(std::string name, DataType type, std::uint64_t count, BufferSpec::Role role);
  Op& existing(OpId op);

  Schedule schedule_;
  std::vector<std::pair<OpId, OpId>> edges_;  // predecessor, successor
  std::vector<int> wanted_;                   // Need::value per operation
};

}  // namespace stretto
