#pragma once

#include <initializer_list>
#include <string>
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

/// Puts a schedule together for one rank. The public way to define a collective of one's own.
///
///   ScheduleBuilder b("pair", rank, 2);
///   auto mine = b.buffer("mine", DataType::float32, n);
///   auto theirs = b.scratch("theirs", DataType::float32, n);
///   auto s = b.send(1 - rank, 0, b.whole(mine), {});
///   auto r = b.recv(1 - rank, 0, b.whole(theirs), {});
///   auto sum = b.reduce(b.whole(mine), b.whole(theirs), ReduceOp::sum, {s, r});
///   Schedule schedule = b.build(sum);
class ScheduleBuilder {
 public:
  using After = std::initializer_list<OpId>;

  ScheduleBuilder(std::string name, int rank, int ranks);

  BufferId buffer(std::string name, DataType type, std::uint64_t count);
  BufferId scratch(std::string name, DataType type, std::uint64_t count);
  Slice whole(BufferId buffer) const;

  OpId send(int peer, int channel, Slice src, After after);
  OpId recv(int peer, int channel, Slice dst, After after);
  OpId reduce(Slice dst, Slice src, ReduceOp op, After after);
  OpId copy(Slice dst, Slice src, After after);
  OpId delay(Duration duration, After after);
  OpId call(std::uint32_t hook, After after);
  OpId nop(After after);

  /// Adds predecessors to an operation that exists.
  void add_after(OpId op, OpId predecessor);
  ScheduleBuilder& need(OpId op, Need need);  ///< default: all
  ScheduleBuilder& external(OpId op);         ///< waits for Engine::trigger, too
  ScheduleBuilder& with_header(OpId op);
  ScheduleBuilder& src_first(OpId op);
  ScheduleBuilder& label(OpId op, std::string label);  ///< shown when printed; unique

  /// Checks the DAG (cycles, need out of range, slices outside their buffers, peers outside the job) and freezes it.
  /// Throws UsageError naming the operations.
  Schedule build(OpId completion);

 private:
  OpId add(Op op, After after);

  Schedule schedule_;
  std::vector<std::vector<OpId>> successors_;
  std::vector<int> wanted_;  // Need::value per operation
};

}  // namespace stretto
