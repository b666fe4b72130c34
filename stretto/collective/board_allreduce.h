#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "stretto/base/mutex.h"
#include "stretto/base/patience.h"
#include "stretto/board/exchange_board.h"
#include "stretto/board/full_board.h"
#include "stretto/collective/allreduce_choice.h"
#include "stretto/collective/allreduce_way.h"
#include "stretto/collective/two_level_board.h"
#include "stretto/engine/driver.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// An allreduce between the ranks of one host, on a board in the memory they share, or on several.
class BoardAllreduce final : public AllreduceWay, private RoundOwner {
 public:
  /// Requires: engine.arena(). Where the ranks disagree every run() says so. Throws Failure where there is too
  /// little memory.
  BoardAllreduce(Engine& engine, const BucketSpec& bucket, ReduceOp op, const AllreduceChoice& choice);

  Result<void> run(EngineDriver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) override;
  Result<void> run(EngineDriver& driver, TimePoint deadline) override;
  std::byte* input() override;
  const std::byte* result() override;

 private:
  using Board = std::variant<std::monostate, FullBoard, ExchangeBoard, TwoLevelBoard>;

  // The engine has nothing to do for a board but to say who is lost.
  bool admit(Round, const Envelope&) override { return false; }
  bool call(Round, OpId, std::uint32_t) override { return true; }
  void completed(Round) override {}
  void retired(Round) override {}
  void control(int, const Envelope&, std::span<const std::byte>) override {}
  void lost(int peer, const Error& reason) override;
  bool poll(TimePoint) override { return false; }

  void check(const Argument& argument, const char* which) const;
  /// Whether a round begins: otherwise the one that has not finished goes on. Nothing: the memory is our own.
  bool begins(const std::optional<Argument>& mine, const std::optional<Argument>& sum);
  Error failure() const;
  void fail(Error error);
  template <class B>
  Result<void> run(B& board, EngineDriver& driver, TimePoint deadline, const Argument& mine, const Argument& sum);
  template <class B>
  Result<void> run(B& board, EngineDriver& driver, TimePoint deadline);
  template <class B>
  Result<void> wait(B& board, EngineDriver& driver, TimePoint deadline);
  template <class B>
  Error timed_out(const B& board, TimePoint since) const;

  Engine& engine_;
  const BucketSpec bucket_;
  const std::string shape_;
  int regions_ = 0;  // of the arena, up to this collective's
  Board board_;
  Patience patience_;
  bool running_ = false;                // a round has begun and run() has not returned success for it
  std::optional<Argument> mine_, sum_;  // of that round
  Block own_input_, own_result_;        // of an exchange whose buffers the caller wants from us

  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  Error failure_ GUARDED_BY(mutex_){Errc::aborted, "", -1};
};

}  // namespace stretto
