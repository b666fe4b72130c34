#include "stretto/collective/board_allreduce.h"

#include <cstring>

#include "stretto/base/cores.h"
#include "stretto/kernel/combine.h"

namespace stretto {
BoardAllreduce::BoardAllreduce(Engine& engine, const BucketSpec& bucket, ReduceOp op, const AllreduceChoice& choice)
    : engine_(engine),
      bucket_(bucket),
      shape_(text("allreduce of ", bucket.count, ' ', name_of(bucket.type), " by ", name_of(op))),
      patience_(engine.size() <= num_cores(), engine.rank()) {
  engine.add(*this);
  SharedArena& arena = *engine.arena();
  const auto ring = [&arena](int rank) { arena.ring(rank); };
  const auto build = [&]<class B>(std::in_place_type_t<B>, const typename B::Shape& board) {
    // Ranks that have read different tuning files may differ in both.
    const std::string how = text(" through ", name_of(choice.way), " by ", choice.piece_bytes, " B");
    const auto memory = arena.take(B::bytes_needed(board, engine.size()), shape_ + how);
    regions_ = arena.taken();
    if (!memory && memory.error().code == Errc::unavailable) throw Failure(memory.error());
    if (!memory) return fail(memory.error());
    board_.emplace<B>(*memory, board, engine.rank(), engine.size(), ring);
  };
  if (choice.way == AllreduceChoice::Way::exchange) {
    build(std::in_place_type<ExchangeBoard>, {bucket.type, bucket.count, op, choice.piece_bytes});
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
  const std::uint64_t bytes = bucket_.count * size_of(bucket_.type);
  if (!own_input_) own_input_ = Block(std::max<std::uint64_t>(bytes, 1));
  return own_input_.data();
}

const std::byte* BoardAllreduce::result() {
  if (auto* board = std::get_if<FullBoard>(&board_)) return board->result();
  return own_result_.data();
}

Result<void> BoardAllreduce::run(EngineDriver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) {
  check(mine, "mine");
  check(sum, "sum");
  if (failed_.load(std::memory_order_acquire)) return failure();
  const bool begin = begins(mine, sum);
  const std::uint64_t bytes = bucket_.count * size_of(bucket_.type);
  if (auto* exchange = std::get_if<ExchangeBoard>(&board_)) {
    if (begin) exchange->arrive(mine.memory().data, sum.memory().data);
    return wait(*exchange, driver, deadline);
  }
  auto& board = std::get<FullBoard>(board_);
  if (begin) {
    copy_bytes(board.input(), mine.memory().data, bytes,
               stores_for(bytes * static_cast<std::uint64_t>(engine_.size())));
    board.arrive();
  }
  auto waited = wait(board, driver, deadline);
  if (waited.ok())
    copy_bytes(sum.memory().data, board.result(), bytes,
               stores_for(bytes * static_cast<std::uint64_t>(engine_.size())));
  return waited;
}

Result<void> BoardAllreduce::run(EngineDriver& driver, TimePoint deadline) {
  if (failed_.load(std::memory_order_acquire)) return failure();
  const bool begin = begins(std::nullopt, std::nullopt);
  if (auto* exchange = std::get_if<ExchangeBoard>(&board_)) {
    const std::uint64_t bytes = bucket_.count * size_of(bucket_.type);
    if (!own_result_) own_result_ = Block(std::max<std::uint64_t>(bytes, 1));
    if (begin) exchange->arrive(input(), own_result_.data());
    return wait(*exchange, driver, deadline);
  }
  auto& board = std::get<FullBoard>(board_);
  if (begin) board.arrive();
  return wait(board, driver, deadline);
}

template <class B>
Result<void> BoardAllreduce::wait(B& board, EngineDriver& driver, TimePoint deadline) {
  running_ = true;
  patience_.reset();
  while (!board.complete()) {
    if (board.step()) {
      patience_.reset();
    } else if (!board.complete() && !patience_.wait()) {
      break;
    }
  }
  if (!board.complete()) {
    const TimePoint since = engine_.clock().now();
    // Whoever rings takes us out: go in again before each look that may be the last before sleeping.
    const auto over = [&] {
      board.sleepers().go_in(engine_.rank());
      while (!board.complete() && board.step()) {
      }
      if (const auto disagreement = engine_.arena()->disagreement(regions_)) fail(*disagreement);
      return board.complete() || failed_.load(std::memory_order_relaxed);
    };
    driver.wait(over, deadline, EngineDriver::Looking::enough, board.sleepers().signal());
    board.sleepers().leave(engine_.rank());
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
