#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// Who gives the triggers from outside that the operations of a round wait for.
inline constexpr int kEveryRank = -1;

/// One run of the schedules of all ranks, in which every operation takes a microsecond (a delay its own time) and a
/// message none. All triggers of `initiator`, or those of every rank, are given at time 0.
///
/// An operation fires at most once, and more triggers let no operation finish that finished without them. So what does
/// not finish with the triggers of every rank finishes in no run at all.
class Execution {
 public:
  /// The fate of an operation.
  struct Fate {
    std::uint32_t counted = 0;   ///< triggers and predecessors that finished before it fired
    std::vector<OpId> required;  ///< those predecessors, the first to finish first
    bool fired = false;
    bool arrived = false;  ///< recv: the message is there
    bool finished = false;
  };

  /// Requires: schedules of all ranks in order, each recv with its send.
  Execution(std::span<const Schedule> schedules, int initiator);

  const Fate& fate(int rank, OpId op) const { return fates_[index(rank)][op]; }
  /// Throws UsageError where a rank does not complete: names its operation, what that waits for, what this waits for,
  /// and so on, up to a trigger that nobody gives or until they are in a circle.
  void require_completion() const;

 private:
  using Place = std::pair<int, OpId>;  // a rank and an operation of it

  struct End {
    Duration time;
    std::uint64_t sequence;  // of ends at the same time, the one that fired first comes first
    int rank;
    OpId op;
    friend bool operator>(const End& a, const End& b) {
      return std::tie(a.time, a.sequence) > std::tie(b.time, b.sequence);
    }
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  void fire(int rank, OpId id, Duration now);
  void finish(const End& end);
  /// An operation without which `place` does not finish; itself where it lacks a trigger only.
  Place cause_of(const Place& place) const;
  std::string waiting_from(const Place& place) const;

  std::span<const Schedule> schedules_;
  std::vector<std::vector<Fate>> fates_;
  std::vector<std::vector<Place>> partner_;  // of a send its recv, of a recv its send; by rank and operation
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::uint64_t sequence_ = 0;
};

}  // namespace stretto
