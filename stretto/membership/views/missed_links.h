#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// Decides which members the others go on without, where hosts that both reach the master do not reach each other.
/// Pure: no thread, clock or socket; calls come one at a time.
///
/// One host of two goes: the one that misses more others, so that fewest go; of these the one with fewer members; of
/// these the one whose members have the higher numbers. Hosts of one name are told apart by their members alone.
class MissedLinks {
 public:
  /// From the first member that misses another one, so that the others of their hosts have said it, too; and the master
  /// has lost a host that is gone, of which this says nothing.
  static constexpr Duration kGather = std::chrono::milliseconds(500);

  struct Verdict {
    std::vector<MemberNumber> without = {};  ///< ascending
    std::set<std::string> hosts = {};        ///< all of whose members these are
    std::string why = {};                    ///< a sentence
  };

  /// Member `from` finds no way to member `to`. Both are of `view`, the present one.
  void miss(const View& view, MemberNumber from, MemberNumber to, TimePoint now);
  /// The decision, once: nothing before enough have been heard, and of links whose members are lost anyhow.
  std::optional<Verdict> decide(const View& view, FunctionRef<bool(MemberNumber)> is_lost, TimePoint now);

 private:
  std::uint64_t epoch_ = 0;  // of what follows
  TimePoint first_;
  std::set<std::pair<MemberNumber, MemberNumber>> missed_;
};

}  // namespace stretto
