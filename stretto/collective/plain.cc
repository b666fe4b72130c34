#include "stretto/collective/plain.h"

#include <algorithm>

#include "stretto/base/machine/cores.h"
#include "stretto/collective/allreduce/allreduce_choice.h"
#include "stretto/collective/allreduce/board_allreduce.h"
#include "stretto/collective/rounds/seating.h"
#include "stretto/collective/schedules/plain_schedules.h"
#include "stretto/collective/schedules/round_schedules.h"

namespace stretto {
namespace {

std::string shape_of(DataType type, std::uint64_t count) {
  return text(count, ' ', name_of(type));
}

Schedule allreduce_for(const Engine& engine, const BucketSpec& bucket, ReduceOp op) {
  return allreduce_schedule(engine.rank(), engine.size(), bucket.type, bucket.count, op,
                            algorithm_for(bucket, SumOrder::fixed));
}

/// An allreduce by messages, also where ranks share memory.
class MessageAllreduce final : public AllreduceWay {
 public:
  MessageAllreduce(Engine& engine, const BucketSpec& bucket, ReduceOp op)
      : bucket_(bucket),
        rounds_(engine, allreduce_for(engine, bucket, op),
                text(shape_of(bucket.type, bucket.count), " by ", name_of(op))) {}

  Result<void> run(Driver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) override {
    return rounds_.run(driver, deadline, {mine, sum});
  }
  Result<void> run(Driver& driver, TimePoint deadline) override {
    return rounds_.run(driver, deadline,
                       {Argument::in(bucket_.type, bucket_.count, input()),
                        Argument::out(bucket_.type, bucket_.count, memory(result_))});
  }
  void abort(Driver& driver, const Error& why) override { rounds_.abort(driver, why); }
  std::optional<Error> failure() const override { return rounds_.failure(); }
  std::string who_is_missing(Driver& driver, Duration timeout) override {
    return rounds_.who_is_missing(driver, timeout);
  }
  std::byte* input() override { return memory(input_); }
  const std::byte* result() override { return memory(result_); }

 private:
  std::byte* memory(Block& block) const {
    if (!block) block = Block(std::max<std::uint64_t>(1, bucket_.count * size_of(bucket_.type)));
    return block.data();
  }

  const BucketSpec bucket_;
  ScheduledCollective rounds_;
  Block input_, result_;  // made when first asked for
};

void check_seats(int ranks, const AllreduceOptions& options) {
  using Through = AllreduceOptions::Through;
  const int seats = options.seats;
  if (seats < 0 || seats > ranks) {
    throw UsageError(text("seats ", seats, " with ", ranks, " ranks: expected 1 to ", ranks, ", or 0 for all of them"));
  }
  const bool all = seats == 0 || seats == ranks;
  if (options.through == Through::messages && seats > 1) {
    throw UsageError(text("seats ", seats, " through messages: expected 1, or 0"));
  }
  if (options.through == Through::exchange && !all) {
    throw UsageError(text("seats ", seats, " through exchange: expected 0 or ", ranks, ", all ranks at one board"));
  }
  if (options.through == Through::gather && !all && seats == 1) {
    throw UsageError(text("seats 1 through gather: expected 2 to ", ranks, ", or 0 for all of them"));
  }
}

AllreduceChoice choose(Engine& engine, const BucketSpec& bucket, const AllreduceOptions& options) {
  using Through = AllreduceOptions::Through;
  using Way = AllreduceChoice::Way;
  const AllreduceTask task{checked_bytes(bucket.type, bucket.count), engine.size(), num_cores(), options.registered};
  const bool shared = engine.host().arena != nullptr;
  const bool one_host = engine.members().hosts() == 1;
  check_seats(engine.size(), options);
  const bool message = options.through == Through::messages || (options.seats == 1 && engine.size() > 1);
  if (message) return {Way::messages, 0, "as asked for"};
  if (!shared && (options.through != Through::automatic || options.seats > 1)) {
    throw UsageError("a board needs memory that ranks share");
  }
  if (!one_host && options.through == Through::exchange) {
    throw UsageError(text("through exchange: expected all ranks on one host, they are on ", engine.members().hosts()));
  }
  if (!shared) return {Way::messages, 0, "the ranks share no memory"};
  if (engine.size() == 1) return {Way::messages, 0, "there is one rank"};
  const Seating seating(engine.members(), engine.rank(), options.seats);
  if (seating.boards() > 1 && (options.seats > 0 || options.through == Through::gather)) {
    int least = engine.size(), most = 0;
    for (int board = 0; board < seating.boards(); ++board) {
      least = std::min(least, static_cast<int>(seating.at(board).size()));
      most = std::max(most, static_cast<int>(seating.at(board).size()));
    }
    const AllreduceTask at_board{task.bytes, most, task.cores, options.registered};
    return {Way::gather, piece_bytes(Way::gather, at_board),
            text("as asked for: ", seating.boards(), " boards of ", least < most ? text(least, " to ") : "", most,
                 " ranks, ", name_of(algorithm_for(bucket, SumOrder::fixed)), " between their leaders"),
            options.seats};
  }
  if (!one_host) return {Way::messages, 0, text("the ranks are on ", engine.members().hosts(), " hosts")};
  if (options.through == Through::automatic)
    return choose_allreduce(task, options.costs ? *options.costs : AllreduceCosts::from_environment());
  const Way asked = options.through == Through::exchange ? Way::exchange : Way::gather;
  return {asked, piece_bytes(asked, task), "as asked for"};
}

Schedule allgather_for(const Engine& engine, DataType type, std::uint64_t count) {
  (void)checked_bytes(type, count, static_cast<std::uint64_t>(engine.size()));
  return allgather_schedule(engine.rank(), engine.size(), type, count);
}

}  // namespace

Broadcast::Broadcast(Engine& engine, DataType type, std::uint64_t count, int root)
    : PlainCollective(engine, broadcast_schedule(engine.rank(), engine.size(), root, type, count),
                      text(shape_of(type, count), " from rank ", root)),
      is_root_(engine.rank() == root) {}

Barrier::Barrier(Engine& engine) : PlainCollective(engine, barrier_schedule(engine.rank(), engine.size())) {}

Allgather::Allgather(Engine& engine, DataType type, std::uint64_t count)
    : PlainCollective(engine, allgather_for(engine, type, count), shape_of(type, count) + " a rank") {}

Allreduce::Allreduce(Engine& engine, DataType type, std::uint64_t count, ReduceOp op, AllreduceOptions options)
    : bucket_{type, count} {
  check_reduction(type, op);
  const AllreduceChoice choice = choose(engine, bucket_, options);
  explanation_ = text("allreduce of ", shape_of(type, count), " by ", name_of(op), " over ", engine.size(),
                      " ranks: ", name_of(choice.way), " (", choice.why, ")");
  if (choice.way == AllreduceChoice::Way::messages) {
    way_ = std::make_unique<MessageAllreduce>(engine, bucket_, op);
  } else {
    way_ = std::make_unique<BoardAllreduce>(engine, bucket_, op, choice);
  }
}

Allreduce::~Allreduce() = default;

std::uint64_t Allreduce::checked_count(DataType type) const {
  if (type == bucket_.type) return bucket_.count;
  throw UsageError(text("an allreduce of ", name_of(bucket_.type), " has no memory of ", name_of(type)));
}

}  // namespace stretto
