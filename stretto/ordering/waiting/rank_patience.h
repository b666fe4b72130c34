#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// The state that the orderers of one rank, one for each of its process sets, share. A rank that waits in vain for a
/// tensor of one set may hold back tensors of another; members that ask are told what the rank's application does. One
/// thread, that of the orderers; outlives them.
class RankPatience {
 public:
  /// A tensor for which the application waits.
  struct Wait {
    int set = 0;
    std::string tensor;
    TimePoint since;
  };
  /// The application waits for a tensor of the set; nothing: it does not.
  void waits(int set, std::optional<Wait> wait) {
    if (wait) {
      ++waits_begun_;
      waits_.insert_or_assign(set, *std::move(wait));
    } else {
      waits_.erase(set);
    }
  }
  /// How often it has begun to wait.
  std::uint64_t waits_begun() const { return waits_begun_; }
  /// For what it waits, or null.
  const Wait* waiting() const { return waits_.empty() ? nullptr : &waits_.begin()->second; }
  /// The application has done something, or something that it waited for has come.
  void acted(TimePoint now) { acted_ = std::max(acted_, now); }
  /// Whoever drives says acted() for each submission, with its time: it may hear of it long after.
  void know_submissions() { knows_submissions_ = true; }
  bool knows_submissions() const { return knows_submissions_; }
  /// When that was the last time.
  TimePoint acted_at() const { return acted_; }

  /// The application waits since `since` for a tensor of this set that is in no buffer that this rank has issued, and
  /// not because too many are under way; nothing: it does not.
  void holds(int set, std::optional<TimePoint> since) {
    if (since) {
      holds_[set] = *since;
    } else {
      holds_.erase(set);
    }
  }
  /// The same of the sets but this one: since when.
  std::optional<TimePoint> held_beside(int set) const {
    std::optional<TimePoint> since;
    for (const auto& [other, when] : holds_) {
      if (other != set) since = std::min(since.value_or(when), when);
    }
    return since;
  }
  /// The set's plan is left in this step, by this rank or another.
  void left(StepNumber step) { left_ = std::max(left_.value_or(step), step); }
  /// Whether the plan of some set was left in this step.
  bool left_in(StepNumber step) const { return left_ == step; }

 private:
  std::map<int, Wait> waits_;  // by set
  std::uint64_t waits_begun_ = 0;
  std::map<int, TimePoint> holds_;  // by set
  TimePoint acted_;
  bool knows_submissions_ = false;
  std::optional<StepNumber> left_;
};

/// How long the application computes between two tensors of a step. One thread.
class ComputingGaps {
 public:
  /// Tensors of the step were submitted since the last look. Does not count the time since then if the application has
  /// waited in it, for whatever process set.
  void submitted(TimePoint now, const RankPatience& patience) {
    const bool computed = last_ && !waited_ && patience.waits_begun() == waits_begun_;
    if (computed) longest_ = std::max(longest_, now - *last_);
    last_ = now;
    waited_ = patience.waiting() != nullptr;
    waits_begun_ = patience.waits_begun();
  }
  Duration longest() const { return longest_; }  ///< of the step
  /// The next step begins.
  void clear() { *this = {}; }

 private:
  Duration longest_{0};
  std::optional<TimePoint> last_;
  bool waited_ = false;            // then
  std::uint64_t waits_begun_ = 0;  // until then
};

}  // namespace stretto
