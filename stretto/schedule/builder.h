#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// How many predecessors an operation waits for.
struct Need {
  static constexpr Need all() { return {-1}; }
  static constexpr Need any() { return {1}; }
  static constexpr Need count(int k) { return {k}; }
  int value = -1;
};

/// The operations another one comes after; kNoOp among them stands for none.
class After {
 public:
  After(std::initializer_list<OpId> ops) : ops_(ops) {}   // NOLINT(google-explicit-constructor)
  After(std::vector<OpId> ops) : ops_(std::move(ops)) {}  // NOLINT(google-explicit-constructor)
  const std::vector<OpId>& ops() const { return ops_; }

 private:
  std::vector<OpId> ops_;
};

/// Puts a schedule together for one rank. The public way to define a collective of one's own.
///
///   ScheduleBuilder b("pair", rank, 2);
///   auto mine = b.buffer("mine", DataType::float32, n);
///   auto theirs = b.scratch("theirs", DataType::float32, n);
///   auto s = b.send(1 - rank, 0, b.whole(mine), {});
///   auto r = b.recv(1 - rank, 0, b.whole(theirs), {});
///   auto sum = b.reduce(b.whole(mine), b.whole(theirs), ReduceOp::sum, {s, r});
///   Schedule schedule = b.build(sum);
///
/// Throws UsageError where an argument names an operation, buffer or channel that cannot exist.
class ScheduleBuilder {
 public:
  ScheduleBuilder(std::string name, int rank, int ranks);

  int rank() const { return schedule_.rank_; }
  int ranks() const { return schedule_.ranks_; }

  BufferId buffer(std::string name, DataType type, std::uint64_t count);
  BufferId scratch(std::string name, DataType type, std::uint64_t count);
  Slice whole(BufferId buffer) const;
  const BufferSpec& spec(BufferId buffer) const;

  OpId send(int peer, int channel, Slice src, After after);
  OpId recv(int peer, int channel, Slice dst, After after);
  OpId reduce(Slice dst, Slice src, ReduceOp op, After after);
  OpId copy(Slice dst, Slice src, After after);
  OpId delay(Duration duration, After after);
  OpId call(std::uint32_t hook, After after);
  OpId nop(After after);

  /// Adds a predecessor to an operation that exists. One that is there already counts once.
  void add_after(OpId op, OpId predecessor);
  ScheduleBuilder& need(OpId op, Need need);  ///< default: all
  ScheduleBuilder& external(OpId op);         ///< waits for Engine::trigger, as for one more predecessor
  ScheduleBuilder& with_header(OpId op);
  ScheduleBuilder& src_first(OpId op);
  ScheduleBuilder& label(OpId op, std::string label);  ///< shown when printed; unique

  /// Checks the DAG and freezes it: cycles, need out of range, slices outside their buffers, sources and destinations
  /// that differ or overlap, peers outside the job, a channel used twice towards one peer, labels given twice.
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
