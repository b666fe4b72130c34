#include "stretto/collective/allreduce/board_allreduce.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "stretto/base/machine/cores.h"
#include "stretto/collective/schedules/plain_schedules.h"
#include "stretto/collective/schedules/round_schedules.h"
#include "stretto/kernel/combine.h"

namespace stretto {
namespace {

/// A rank that does not lead runs no schedule, but takes part in comparing the collectives of all ranks.
Schedule schedule_between(const FullBoard::Shape& shape, const Seating& seating, AllreduceAlgorithm algorithm) {
  if (!seating.leads()) {
    ScheduleBuilder b("allreduce", seating.rank(), seating.ranks());
    return b.build(b.nop({}));
  }
  return allreduce_schedule(seating.board(), seating.boards(), shape.type, shape.count, shape.op, algorithm)
      .among(seating.leaders(), seating.ranks());
}

std::string words_for(const FullBoard::Shape& shape, const Seating& seating, AllreduceAlgorithm algorithm) {
  return text(shape.count, ' ', name_of(shape.type), " by ", name_of(shape.op), " between ", seating.boards(),
              " boards by ", name_of(algorithm));
}

/// Of this rank's board.
FullBoard::Shape shape_of(const Seating& seating, const BucketSpec& bucket, ReduceOp op, const AllreduceChoice& choice,
                          bool simulated) {
  return {.type = bucket.type,
          .count = bucket.count,
          .op = op,
          .piece_bytes = choice.piece_bytes,
          .helpers = std::min(num_cores(), seating.seats()) - 1,
          .ring_each = simulated,
          .upward = seating.boards() > 1};
}

std::string words_for(const BucketSpec& bucket, ReduceOp op) {
  return text("allreduce of ", bucket.count, ' ', name_of(bucket.type), " by ", name_of(op));
}

}  // namespace

BetweenFullBoards::BetweenFullBoards(Engine& engine, const Seating& seating, const FullBoard::Shape& shape,
                                     AllreduceAlgorithm algorithm, FullBoard& board)
    : seating_(seating),
      shape_(shape),
      board_(board),
      between_(engine, schedule_between(shape, seating, algorithm), words_for(shape, seating, algorithm)) {}

bool BetweenFullBoards::step() {
  if (!seating_.leads() || board_.complete() || !board_.has_sum()) return false;
  if (!exchanging_) {
    between_.start({Argument::in(shape_.type, shape_.count, board_.sum()),
                    Argument::out(shape_.type, shape_.count, board_.outcome())});
    exchanging_ = true;
    return true;
  }
  const auto over = between_.finished();
  if (!over || !*over) return false;
  exchanging_ = false;
  board_.publish();
  return true;
}

BoardAllreduce::BoardAllreduce(Engine& engine, const BucketSpec& bucket, ReduceOp op, const AllreduceChoice& choice)
    : CollectiveBase(engine, words_for(bucket, op)),
      bucket_(bucket),
      seating_(engine.members(), engine.rank(), choice.seats),
      inquiry_(engine, kControlChannel, [this](std::uint64_t rounds) { return attendance(rounds); }),
      backoff_(static_cast<int>(engine.host().members.size()) <= num_cores(), engine.rank()) {
  const Engine::Pause pause(engine);
  // Ranks that have read different tuning files may differ in way and pieces.
  std::string description = text(name_, " through ", name_of(choice.way), " by ", choice.piece_bytes, " B");
  if (choice.seats > 0) description += text(" at boards of ", choice.seats);
  make_board(op, choice, description);
  enroll_client(description);
  inquiry_.enroll(id_);
  // After this collective, so that a rank that has made another one differs in this one.
  if (auto* board = std::get_if<FullBoard>(&board_); board != nullptr && seating_.boards() > 1) {
    const auto shape = shape_of(seating_, bucket_, op, choice, engine.host().arena->interleaved());
    between_ =
        std::make_unique<BetweenFullBoards>(engine, seating_, shape, algorithm_for(bucket_, SumOrder::fixed), *board);
  }
}

void BoardAllreduce::make_board(ReduceOp op, const AllreduceChoice& choice, const std::string& description) {
  const bool exchange = choice.way == AllreduceChoice::Way::exchange;
  const ExchangeBoard::Shape chunks{bucket_.type, bucket_.count, op, choice.piece_bytes};
  const FullBoard::Shape pieces = shape_of(seating_, bucket_, op, choice, engine_.host().arena->interleaved());
  memory_.emplace(failure_, seating_, description, [&](int seats) {
    return exchange ? ExchangeBoard::bytes_needed(chunks, seats) : FullBoard::bytes_needed(pieces, seats);
  });
  if (failure_.failed()) return;
  const auto ring = [this](int seat) { seating_.ring(engine_.host(), seat); };
  if (exchange) {
    board_.emplace<ExchangeBoard>(memory_->bytes(), chunks, seating_.seat(), seating_.seats(), ring);
    return;
  }
  auto& board = board_.emplace<FullBoard>(memory_->bytes(), pieces, seating_.seat(), seating_.seats(), ring);
  input_ = board.input();
  result_ = board.result();
}

BoardAllreduce::~BoardAllreduce() {
  engine_.remove(id_);
}

void BoardAllreduce::look_who_has_left(Driver& driver) {
  for (int seat = 0; seat < seating_.seats(); ++seat) {
    const int peer = seating_.rank_at(seat);
    if (!engine_.liveness().has_left(peer) || has_come(seat)) continue;
    const Error gone{Errc::lost_peer, text(name_, ": ", has_left(peer).message), peer};
    return between_ != nullptr ? failure_.fail_everywhere(driver, gone) : failure_.fail(gone, false);
  }
}

void BoardAllreduce::check(const Argument& argument, const char* which) const {
  if (argument.type() == bucket_.type && argument.count() == bucket_.count) return;
  throw UsageError(text(name_, ": \"", which, "\" was given ", argument.count(), ' ', name_of(argument.type()),
                        "; expected ", bucket_.count, ' ', name_of(bucket_.type)));
}

bool BoardAllreduce::begins(const std::optional<Argument>& mine, const std::optional<Argument>& sum) {
  if (running_ && (mine != mine_ || sum != sum_)) {
    throw UsageError(text(name_, ": the round before has not finished; call again with the same arguments"));
  }
  mine_ = mine;
  sum_ = sum;
  return !running_;
}

std::byte* BoardAllreduce::input() {
  if (input_ != nullptr) return input_;
  const std::uint64_t bytes = std::max<std::uint64_t>(1, bucket_.count * size_of(bucket_.type));
  own_input_ = Block(bytes);
  own_result_ = Block(bytes);
  result_ = own_result_.data();
  return input_ = own_input_.data();
}

const std::byte* BoardAllreduce::result() {
  (void)input();
  return result_;
}

Result<void> BoardAllreduce::run(Driver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) {
  check(mine, "mine");
  check(sum, "sum");
  if (failure_.failed()) return *failure();
  return run(driver, deadline, begins(mine, sum), mine.memory().data, sum.memory().data);
}

Result<void> BoardAllreduce::run(Driver& driver, TimePoint deadline) {
  if (failure_.failed()) return *failure();
  (void)input();
  return run(driver, deadline, begins(std::nullopt, std::nullopt), input_, own_result_.data());
}

Result<void> BoardAllreduce::run(Driver& driver, TimePoint deadline, bool begins, const std::byte* mine,
                                 std::byte* sum) {
  if (auto* exchange = std::get_if<ExchangeBoard>(&board_)) {
    if (begins) exchange->arrive(mine, sum);
    return wait(*exchange, driver, deadline);
  }
  auto& board = std::get<FullBoard>(board_);
  const std::uint64_t bytes = bucket_.count * size_of(bucket_.type);
  const Stores stores = stores_for(bytes * static_cast<std::uint64_t>(engine_.size()));
  if (begins) {
    if (mine != input_) copy_bytes(input_, mine, bytes, stores);
    board.arrive();
  }
  auto waited = wait(board, driver, deadline);
  if (waited.ok() && sum != nullptr) copy_bytes(sum, result_, bytes, stores);
  return waited;
}

template <class B>
Result<void> BoardAllreduce::wait(B& board, Driver& driver, TimePoint deadline) {
  running_ = true;
  backoff_.reset();
  while (!board.complete()) {
    if (step(board)) {
      backoff_.reset();
    } else if (!board.complete() && (wants_messages() || !backoff_.wait())) {
      break;
    }
  }
  if (!board.complete()) {
    using Looking = Driver::Looking;
    const TimePoint since = engine_.clock().now();
    Looking looking = wants_messages() ? Looking::first : Looking::enough;
    const auto over = [&] { return board.complete() || failure_.failed() || engine_.frozen(); };
    // The rank that rings takes this rank out of the sleepers: go in again before each look that may be the last before
    // sleeping.
    const auto look = [&] {
      board.sleepers().go_in(seating_.seat());
      while (!board.complete() && step(board)) {
      }
      // First: where a rank is missing at its board, the leader may have left because of it.
      if (!engine_.liveness().all_here() && !board.complete() && failure_.agreed()) {
        look_who_has_left(driver);
      }
      if (between_ != nullptr && between_->failure()) failure_.fail(*between_->failure(), false);
      return over() || (looking == Looking::enough && wants_messages());
    };
    // Once more where the leader's messages have begun: no message may have come yet, and it is worth looking for the
    // first.
    while (driver.wait(look, deadline, looking, board.sleepers().signal()) && !over()) looking = Looking::first;
    board.sleepers().leave(seating_.seat());
    if (failure_.failed() && !board.complete()) return *failure();
    if (engine_.frozen() && !board.complete()) return members_changed();
    if (!board.complete()) {
      return Error{Errc::timeout, text(name_, ": not complete after ", seconds(engine_.clock().now() - since), " s; ",
                                       missing(driver, std::chrono::milliseconds(200)))};
    }
  }
  running_ = false;
  return {};
}

std::string BoardAllreduce::who_is_missing(Driver& driver, Duration timeout) {
  return text(name_, ": ", missing(driver, timeout));
}

std::string BoardAllreduce::missing(Driver& driver, Duration timeout) {
  std::vector<std::string> missing;
  for (int seat = 0; seat < seating_.seats(); ++seat) {
    if (!has_come(seat)) missing.push_back(engine_.name_of(seating_.rank_at(seat)));
  }
  if (between_ != nullptr) std::ranges::move(missing_elsewhere(driver, timeout), std::back_inserter(missing));
  if (missing.empty()) return "all ranks have come";
  std::string list = "nothing has come from ";
  for (std::size_t i = 0; i < missing.size(); ++i) list += text(i == 0 ? "" : ", ", missing[i]);
  return list;
}

Inquiry::Answer BoardAllreduce::attendance(std::uint64_t rounds) const {
  Inquiry::Answer come(static_cast<std::size_t>(seating_.seats()));
  const auto* board = std::get_if<FullBoard>(&board_);
  for (int seat = 0; seat < seating_.seats(); ++seat) {
    come[static_cast<std::size_t>(seat)] = std::byte{board != nullptr && board->has_come(seat, rounds)};
  }
  return come;
}

std::vector<std::string> BoardAllreduce::missing_elsewhere(Driver& driver, Duration timeout) {
  std::vector<int> leaders = seating_.leaders();
  std::erase(leaders, seating_.leader());
  const std::uint64_t rounds = std::get<FullBoard>(board_).rounds();
  const auto answers = inquiry_.ask(driver, timeout, leaders, rounds, [this] { return failure_.failed(); });
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < leaders.size(); ++i) {
    const auto& come = answers[i];
    const auto& ranks = seating_.at(seating_.board_of(leaders[i]));
    if (!come || come->size() != ranks.size()) {
      missing.push_back(text(engine_.name_of(leaders[i]), " (silent)"));
      continue;
    }
    for (std::size_t seat = 0; seat < ranks.size(); ++seat) {
      if ((*come)[seat] == std::byte{0}) missing.push_back(engine_.name_of(ranks[seat]));
    }
  }
  return missing;
}

bool BoardAllreduce::has_come(int seat) const {
  if (const auto* exchange = std::get_if<ExchangeBoard>(&board_)) return exchange->has_come(seat);
  const auto* board = std::get_if<FullBoard>(&board_);
  return board != nullptr && board->has_come(seat);  // null: the ranks could not agree on a board
}

}  // namespace stretto
