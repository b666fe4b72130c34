#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/observe/round_header.h"

namespace stretto {

/// The times of all ranks' steps, as the headers of rounds tell every rank: for pictures, and for estimates of what
/// other algorithms would have taken. Its memory does not grow with the run. One thread.
class LoopHistory {
 public:
  /// A rank's step up to its contribution, in seconds of its own time since the start. A contribution of several
  /// batches is one step.
  struct Step {
    double begin = 0;     ///< of the computation
    double computed = 0;  ///< from then on
    double waited = 0;    ///< before it, at the round of the step before
  };

  /// Rounds that the bound on the lag held back: until a rank had brought a batch computed `max_lag` rounds before.
  struct Holds {
    std::uint64_t rounds = 0;  ///< at which this rank waited so
    double seconds = 0;        ///< that it waited, all together
    int rank = -1;             ///< for which it waited longest at once; −1: there was none
    double longest = 0;        ///< seconds
  };

  /// How long so many batches would have taken with the step times seen, without communication.
  struct Estimate {
    double sync = 0;          ///< seconds, where every rank waits for the slowest of each step
    double ideal = 0;         ///< seconds, where no rank ever waits
    std::uint64_t steps = 0;  ///< step times that it is made of; 0: nothing is known
  };

  /// Of rank `rank` in a job of `ranks`, whose deposits are at most `max_lag` rounds late.
  LoopHistory(int rank, int ranks, int max_lag);

  /// The job has had members of more numbers. Without effect where there are as many.
  void grow(int ranks) {
    if (static_cast<std::size_t>(ranks) > ranks_.size()) ranks_.resize(static_cast<std::size_t>(ranks));
  }

  /// Round `round` has been applied. Rounds come in order; after begin_again() from 0 on.
  void add(std::uint64_t round, const RoundHeader& header);
  void begin_again();
  /// This rank has waited so long for the rounds that were added since the last call.
  void step(Duration waited);

  /// The last steps of a rank, the oldest first. Requires: 0 ≤ rank < ranks.
  std::span<const Step> last_steps(int rank) const {
    const std::span<const Step> all = of(rank).last;
    return all.last(std::min(all.size(), kLastSteps));
  }
  const Holds& holds() const { return holds_; }
  /// Of `batches`, dealt out to the ranks that have brought any.
  Estimate estimate(std::uint64_t batches) const;

  static constexpr std::size_t kLastSteps = 64;
  static constexpr std::size_t kMostTimes = 1024;  ///< of each rank, for estimates

 private:
  struct Time {
    std::uint64_t step = 0;
    Duration computed{0};
  };
  struct OfRank {
    std::vector<Step> last;   // up to twice as many as are kept, so that few have to move
    double now = 0;           // the rank's own time at its last contribution
    std::uint64_t round = 0;  // of its last contribution, + 1
    std::uint64_t steps = 0;  // whose times are known
    std::vector<Time> times;  // of one step in `one_in_`, drawn; the same steps of all ranks
  };
  const OfRank& of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  /// Whether the times of such a step are kept. Drawn, so that what repeats is not met at the same place each time.
  bool keeps(std::uint64_t step) const;
  static void make_room(OfRank& rank);
  void add_time(OfRank& rank, Duration computed);
  void notice_hold(std::uint64_t round, const RoundHeader& header);

  const int rank_;
  const std::uint64_t max_lag_;
  std::vector<OfRank> ranks_;
  std::uint64_t one_in_ = 1;  // a power of two
  int held_by_ = -1;          // in the rounds since the last step
  Holds holds_;
};

}  // namespace stretto
