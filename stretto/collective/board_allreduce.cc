#include "stretto/collective/board_allreduce.h"

#include <algorithm>
#include <type_traits>

#include "stretto/base/cores.h"
#include "stretto/collective/partial_schedule.h"
#include "stretto/kernel/combine.h"

namespace stretto {
namespace {

// In what several boards differ from one.

template <class B>
bool wants_messages(const B& board) {
  if constexpr (std::is_same_v<B, TwoLevelBoard>) return board.wants_messages();
  return false;
}

template <class B>
std::optional<Error> failure_of(const B& board) {
  if constexpr (std::is_same_v<B, TwoLevelBoard>) return board.failure();
  return std::nullopt;
}

template <class B>
int seat_at(const B& board, int rank) {
  if constexpr (std::is_same_v<B, TwoLevelBoard>) return board.seat();
  return rank;
}

}  // namespace

BoardAllreduce::BoardAllreduce(Engine& engine, const BucketSpec& bucket, ReduceOp op, const AllreduceChoice& choice)
    : engine_(engine),
      bucket_(bucket),
      shape_(text("allreduce of ", bucket.count, ' ', name_of(bucket.type), " by ", name_of(op))),
      patience_(engine.size() <= num_cores(), engine.rank()) {
  engine.add(*this);
  SharedArena& arena = *engine.arena();
  const auto ring = [&arena](int rank) { arena.ring(rank); };
  const auto build = [&]<class B>(std::in_place_type_t<B>, const typename B::Shape& board) {
    // Ranks that have read different tuning files may differ in way and pieces.
    std::string how = text(" through ", name_of(choice.way), " by ", choice.piece_bytes, " B");
    if (choice.seats > 0) how += text(" at boards of ", choice.seats);
    const auto memory = arena.take(B::bytes_needed(board, engine.size()), shape_ + how);
    regions_ = arena.taken();
    if (!memory && memory.error().code == Errc::unavailable) throw Failure(memory.error());
    if (!memory) return fail(memory.error());
    if constexpr (std::is_same_v<B, TwoLevelBoard>) {
      board_.emplace<B>(*memory, board, engine);
    } else {
      board_.emplace<B>(*memory, board, engine.rank(), engine.size(), ring);
    }
  };
  if (choice.way == AllreduceChoice::Way::exchange) {
    build(std::in_place_type<ExchangeBoard>, {bucket.type, bucket.count, op, choice.piece_bytes});
  } else if (choice.seats > 0) {
    build(std::in_place_type<TwoLevelBoard>,
          {bucket.type, bucket.count, op, choice.piece_bytes, choice.seats, algorithm_for(bucket, SumOrder::fixed)});
  } else {
    build(std::in_place_type<FullBoard>,
          {bucket.type, bucket.count, op, choice.piece_bytes, std::min(num_cores(), engine.size()) - 1});
  }
}

void BoardAllreduce::lost(int peer, const Error& reason) {
  fail({Errc::lost_peer, text(shape_, ": ", reason.message), peer});
}

void BoardAllreduce::fail(Error error) {
  if (failed_.load(std::memory_order_relaxed)) return;
  {
    MutexLock lock(mutex_);
    failure_ = std::move(error);
  }
  failed_.store(true, std::memory_order_release);
}

Error BoardAllreduce::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

void BoardAllreduce::check(const Argument& argument, const char* which) const {
  if (argument.type() == bucket_.type && argument.count() == bucket_.count) return;
  throw UsageError(text(shape_, ": \"", which, "\" was given ", argument.count(), ' ', name_of(argument.type()),
                        "; expected ", bucket_.count, ' ', name_of(bucket_.type)));
}

bool BoardAllreduce::begins(const std::optional<Argument>& mine, const std::optional<Argument>& sum) {
  if (running_ && (mine != mine_ || sum != sum_)) {
    throw UsageError(text(shape_, ": the round before has not finished; call again with the same arguments"));
  }
  mine_ = mine;
  sum_ = sum;
  return !running_;
}

std::byte* BoardAllreduce::input() {
  if (auto* board = std::get_if<FullBoard>(&board_)) return board->input();
  if (auto* boards = std::get_if<TwoLevelBoard>(&board_)) return boards->input();
  const std::uint64_t bytes = bucket_.count * size_of(bucket_.type);
  if (!own_input_) own_input_ = Block(std::max<std::uint64_t>(bytes, 1));
  return own_input_.data();
}

const std::byte* BoardAllreduce::result() {
  if (auto* board = std::get_if<FullBoard>(&board_)) return board->result();
  if (auto* boards = std::get_if<TwoLevelBoard>(&board_)) return boards->result();
  return own_result_.data();
}

Result<void> BoardAllreduce::run(EngineDriver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) {
  check(mine, "mine");
  check(sum, "sum");
  if (failed_.load(std::memory_order_acquire)) return failure();
  if (auto* board = std::get_if<FullBoard>(&board_)) return run(*board, driver, deadline, mine, sum);
  if (auto* boards = std::get_if<TwoLevelBoard>(&board_)) return run(*boards, driver, deadline, mine, sum);
  auto& exchange = std::get<ExchangeBoard>(board_);
  if (begins(mine, sum)) exchange.arrive(mine.memory().data, sum.memory().data);
  return wait(exchange, driver, deadline);
}

template <class B>
Result<void> BoardAllreduce::run(B& board, EngineDriver& driver, TimePoint deadline, const Argument& mine,
                                 const Argument& sum) {
  const std::uint64_t bytes = bucket_.count * size_of(bucket_.type);
  const Stores stores = stores_for(bytes * static_cast<std::uint64_t>(engine_.size()));
  if (begins(mine, sum)) {
    copy_bytes(board.input(), mine.memory().data, bytes, stores);
    board.arrive();
  }
  auto waited = wait(board, driver, deadline);
  if (waited.ok()) copy_bytes(sum.memory().data, board.result(), bytes, stores);
  return waited;
}

Result<void> BoardAllreduce::run(EngineDriver& driver, TimePoint deadline) {
  if (failed_.load(std::memory_order_acquire)) return failure();
  if (auto* board = std::get_if<FullBoard>(&board_)) return run(*board, driver, deadline);
  if (auto* boards = std::get_if<TwoLevelBoard>(&board_)) return run(*boards, driver, deadline);
  auto& exchange = std::get<ExchangeBoard>(board_);
  const std::uint64_t bytes = bucket_.count * size_of(bucket_.type);
  if (!own_result_) own_result_ = Block(std::max<std::uint64_t>(bytes, 1));
  if (begins(std::nullopt, std::nullopt)) exchange.arrive(input(), own_result_.data());
  return wait(exchange, driver, deadline);
}

template <class B>
Result<void> BoardAllreduce::run(B& board, EngineDriver& driver, TimePoint deadline) {
  if (begins(std::nullopt, std::nullopt)) board.arrive();
  return wait(board, driver, deadline);
}

template <class B>
Result<void> BoardAllreduce::wait(B& board, EngineDriver& driver, TimePoint deadline) {
  running_ = true;
  patience_.reset();
  while (!board.complete()) {
    if (board.step()) {
      patience_.reset();
    } else if (!board.complete() && (wants_messages(board) || !patience_.wait())) {
      break;
    }
  }
  if (!board.complete()) {
    using Looking = EngineDriver::Looking;
    const TimePoint since = engine_.clock().now();
    const int seat = seat_at(board, engine_.rank());
    Looking looking = wants_messages(board) ? Looking::first : Looking::enough;
    const auto over = [&] { return board.complete() || failed_.load(std::memory_order_relaxed); };
    // Whoever rings takes us out: go in again before each look that may be the last before sleeping.
    const auto look = [&] {
      board.sleepers().go_in(seat);
      while (!board.complete() && board.step()) {
      }
      if (const auto disagreement = engine_.arena()->disagreement(regions_)) fail(*disagreement);
      if (const auto why = failure_of(board)) fail(*why);
      return over() || (looking == Looking::enough && wants_messages(board));
    };
    // Once more where the leader's messages have begun: they are worth looking for, and nobody has sent the first.
    while (driver.wait(look, deadline, looking, board.sleepers().signal()) && !over()) looking = Looking::first;
    board.sleepers().leave(seat);
    if (!board.complete()) return failed_.load(std::memory_order_relaxed) ? failure() : timed_out(board, since);
  }
  running_ = false;
  return {};
}

template <class B>
Error BoardAllreduce::timed_out(const B& board, TimePoint since) const {
  std::string missing;
  for (int rank = 0; rank < engine_.size(); ++rank) {
    if (!board.has_come(rank)) missing += text(missing.empty() ? "nothing has come from rank " : ", ", rank);
  }
  return {Errc::timeout, text(shape_, ": not complete after ", seconds(engine_.clock().now() - since), " s; ",
                              missing.empty() ? "all ranks have come" : missing)};
}

}  // namespace stretto
