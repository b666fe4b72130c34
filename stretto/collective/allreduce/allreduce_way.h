#pragma once

#include <cstddef>

#include "stretto/collective/base/argument.h"
#include "stretto/collective/base/collective.h"
#include "stretto/engine/driver.h"

namespace stretto {

struct AllreduceCosts;

/// How an Allreduce goes, the same on every rank. It chooses for itself where nothing is said.
struct AllreduceOptions {
  /// The way of the data (docs/algorithms.md has what each costs).
  enum class Through {
    automatic,  ///< the board where the ranks share a host's memory, else messages
    messages,   ///< a schedule over the transport, as between hosts
    exchange,   ///< the board, each rank summing for itself (ExchangeBoard)
    gather,     ///< the board, each piece summed once (FullBoard)
  };
  Through through = Through::automatic;  ///< one that is not the best for size and ranks costs time, never bits
  /// The caller mostly fills input() and reads result(): the way is chosen for that.
  bool registered = false;
  /// Ranks at a board, in order, fewer at the last; 0: all of them. 1: messages. Otherwise several boards gather, and
  /// the first rank of each, its leader, runs a schedule with the others: as hosts would, each of them one board.
  int seats = 0;
  /// By which `automatic` chooses (collective/allreduce/allreduce_choice.h), read when the collective is made. Null:
  /// those that the environment variable STRETTO_TUNING names a file of, or a guess. The same on every rank.
  const AllreduceCosts* costs = nullptr;
};

/// \cond inner
/// One way of doing an Allreduce; the calls mean the same as there.
class AllreduceWay : public Collective {
 public:
  virtual Result<void> run(Driver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) = 0;
  /// From input() to result().
  virtual Result<void> run(Driver& driver, TimePoint deadline) = 0;
  virtual std::byte* input() = 0;
  virtual const std::byte* result() = 0;
};
/// \endcond

}  // namespace stretto
