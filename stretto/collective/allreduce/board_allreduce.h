#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "stretto/base/backoff.h"
#include "stretto/board/exchange_board.h"
#include "stretto/board/full_board.h"
#include "stretto/collective/allreduce/allreduce_choice.h"
#include "stretto/collective/allreduce/allreduce_way.h"
#include "stretto/collective/base/collective_base.h"
#include "stretto/collective/base/scheduled_collective.h"
#include "stretto/collective/rounds/seating.h"
#include "stretto/collective/schedules/allreduce_schedule.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/inquiry.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// Ties one FullBoard of an allreduce to the other boards of its job: a part of BoardAllreduce, which has none where
/// there is one board. Each board sums its ranks' inputs (FullBoard::Shape::upward). Its leader reduces the sums with
/// the other leaders by messages, and publishes the result on its board. To the schedule between the boards a board is
/// one rank.
class BetweenFullBoards {
 public:
  /// Registers with the engine, on every rank. `seating` and `board`, which is this rank's, outlive this object.
  BetweenFullBoards(Engine& engine, const Seating& seating, const FullBoard::Shape& shape, AllreduceAlgorithm algorithm,
                    FullBoard& board);

  /// On a leader, does the next step between sum and result. Returns whether there was one. The schedule goes on only
  /// while the leader's engine is stepped.
  bool step();
  /// Whether this rank, a leader, waits for messages next, which come when its engine is stepped.
  bool wants_messages() const { return exchanging_; }
  /// Why the schedule can never go on, if so.
  std::optional<Error> failure() const { return between_.failure(); }

 private:
  const Seating& seating_;
  const FullBoard::Shape shape_;
  FullBoard& board_;
  ScheduledCollective between_;
  bool exchanging_ = false;  // on a leader: the schedule runs
};

/// An allreduce between the ranks of one host, on a board in the memory they share, or on several, which
/// BetweenFullBoards ties together. A board does not know that there are others but for FullBoard::Shape::upward.
class BoardAllreduce final : public AllreduceWay, private CollectiveBase {
 public:
  /// Requires: the hosts have arenas. Where the ranks disagree every run() says so. Throws Failure where there is too
  /// little memory.
  BoardAllreduce(Engine& engine, const BucketSpec& bucket, ReduceOp op, const AllreduceChoice& choice);
  ~BoardAllreduce() override;

  Result<void> run(Driver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) override;
  Result<void> run(Driver& driver, TimePoint deadline) override;
  std::byte* input() override;
  const std::byte* result() override;

  void abort(Driver& driver, const Error& why) override { failure_.abort(driver, why); }
  std::optional<Error> failure() const override { return failure_.error(); }
  /// The board shows which of its ranks have come; the leaders of others are asked for `timeout`.
  std::string who_is_missing(Driver& driver, Duration timeout) override;

 private:
  using Board = std::variant<std::monostate, FullBoard, ExchangeBoard>;

  // A board needs the engine only to hear of lost ranks, of a rank that stops the job, and of questions.
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override {
    return inquiry_.control(peer, envelope, head);
  }
  bool poll(TimePoint) override {
    if (failure_.poll()) inquiry_.poll();
    return false;
  }

  void make_board(ReduceOp op, const AllreduceChoice& choice, const std::string& description);
  void check(const Argument& argument, const char* which) const;
  /// Whether a round begins: otherwise the one that has not finished goes on. Nothing: the memory is our own.
  bool begins(const std::optional<Argument>& mine, const std::optional<Argument>& sum);
  /// `sum`: null where the result is read where it lies.
  Result<void> run(Driver& driver, TimePoint deadline, bool begins, const std::byte* mine, std::byte* sum);
  template <class B>
  Result<void> wait(B& board, Driver& driver, TimePoint deadline);
  template <class B>
  bool step(B& board) {
    return board.step() || (between_ != nullptr && between_->step());
  }
  bool wants_messages() const { return between_ != nullptr && between_->wants_messages(); }
  std::string missing(Driver& driver, Duration timeout);
  /// The ranks of other boards that have not come to the round, as their leaders answer: a board's memory is its own
  /// host's. "rank 5 (silent)": a leader that has not answered, of whose board nothing is known.
  std::vector<std::string> missing_elsewhere(Driver& driver, Duration timeout);
  /// By seat of this board: whether its rank has arrived at so many rounds.
  Inquiry::Answer attendance(std::uint64_t rounds) const;
  /// Fails where a rank of this board has left that has not come to the round. On the application's thread, also while
  /// the helper thread drives. Each rank of the board finds out by itself; those of other boards are told.
  void look_who_has_left(Driver& driver);
  bool has_come(int seat) const;

  const BucketSpec bucket_;
  const Seating seating_;
  std::optional<BoardMemory> memory_;
  Board board_;
  std::unique_ptr<BetweenFullBoards> between_;  // null: there is one board
  Inquiry inquiry_;                             // of leaders: who has come to so many rounds
  Backoff backoff_;
  bool running_ = false;                // a round has begun and run() has not returned success for it
  std::optional<Argument> mine_, sum_;  // of that round
  std::byte* input_ = nullptr;          // on the board, or our own; null: not asked for yet
  const std::byte* result_ = nullptr;   // as input_
  Block own_input_, own_result_;        // where the board has no place for whole buffers
};

}  // namespace stretto
