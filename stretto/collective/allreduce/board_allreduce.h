#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "stretto/base/backoff.h"
#include "stretto/base/mutex.h"
#include "stretto/board/exchange_board.h"
#include "stretto/board/full_board.h"
#include "stretto/collective/allreduce/allreduce_choice.h"
#include "stretto/collective/allreduce/allreduce_way.h"
#include "stretto/collective/allreduce/between_full_boards.h"
#include "stretto/collective/allreduce/board_query.h"
#include "stretto/collective/collective_failure.h"
#include "stretto/collective/rounds/board_memory.h"
#include "stretto/collective/rounds/seating.h"
#include "stretto/engine/driver.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// An allreduce between the ranks of one host, on a board in the memory they share, or on several, which
/// BetweenFullBoards ties together. A board does not know that there are others but for FullBoard::Shape::upward.
class BoardAllreduce final : public AllreduceWay, private EngineClient {
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

  // A board needs the engine only to hear of lost ranks and of a rank that stops the job.
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override {
    if (!failure_.control(envelope, head)) query_.control(peer, envelope, head);
  }
  void broken(const Error& reason) override { failure_.fail(reason, true); }
  void lost(int peer, const Error& reason) override;
  void left(int peer, const Error&) override {
    MutexLock lock(left_mutex_);
    left_.insert(peer);
    any_has_left_.store(true, std::memory_order_release);
  }
  bool poll(TimePoint) override {
    if (failure_.poll()) query_.poll();
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
  /// Fails where a rank of this board has left that has not come to the round. On the application's thread, also while
  /// the helper thread drives. Each rank of the board finds out by itself; those of other boards are told.
  void look_who_has_left(Driver& driver);
  bool has_come(int seat) const;

  Engine& engine_;
  const BucketSpec bucket_;
  const std::string shape_;
  CollectiveId id_ = 0;
  CollectiveFailure failure_;  // before board_, whose memory it gives back
  const Seating seating_;
  std::optional<BoardMemory> memory_;
  Board board_;
  std::unique_ptr<BetweenFullBoards> between_;  // null: there is one board
  BoardQuery query_;
  Backoff backoff_;
  bool running_ = false;                // a round has begun and run() has not returned success for it
  std::optional<Argument> mine_, sum_;  // of that round
  std::byte* input_ = nullptr;          // on the board, or our own; null: not asked for yet
  const std::byte* result_ = nullptr;   // as input_
  Block own_input_, own_result_;        // where the board has no place for whole buffers
  std::atomic<bool> any_has_left_{false};
  Mutex left_mutex_;
  RankSet left_ GUARDED_BY(left_mutex_);  // ranks from which nothing comes any more
};

}  // namespace stretto
