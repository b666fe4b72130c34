#include "stretto/collective/lines/line_ways.h"

#include <algorithm>

namespace stretto {

void LineWays::open(Round round) {
  for (auto& [older, its] : rounds_) {
    if (older + most_ <= round) its.waiting.clear();
  }
  rounds_.emplace(round, Of{.out = std::vector<int>(static_cast<std::size_t>(members_)),
                            .goes = RankSet(members_),
                            .waiting = RankSet(members_)});
}

bool LineWays::is_busy(int member) const {
  return std::ranges::any_of(
      rounds_, [member](const auto& entry) { return entry.second.out[static_cast<std::size_t>(member)] > 0; });
}

void LineWays::go(Of& round, int member) const {
  round.waiting.erase(member);
  round.goes.insert(member);
  round.out[static_cast<std::size_t>(member)] += round.averaged ? 2 : 1;
}

bool LineWays::may_send(Round round, int member) {
  const auto found = rounds_.find(round);
  if (found == rounds_.end() || found->second.ended || rounds_.rbegin()->first >= round + most_) return false;
  Of& here = found->second;
  here.waiting.insert(member);
  if (is_busy(member)) return false;
  go(here, member);
  return true;
}

const RankSet& LineWays::average(Round round) {
  Of& here = rounds_.at(round);
  here.averaged = true;
  for (const int member : here.goes.members()) ++here.out[static_cast<std::size_t>(member)];
  return here.goes;
}

std::vector<Round> LineWays::open_rounds() const {
  std::vector<Round> out;
  for (const auto& [round, its] : rounds_) {
    if (!its.ended) out.push_back(round);
  }
  return out;
}

std::optional<Round> LineWays::sent(Round round, int member) {
  --rounds_.at(round).out[static_cast<std::size_t>(member)];
  forget(round);
  if (is_busy(member)) return std::nullopt;
  for (auto& [other, its] : rounds_) {
    if (its.ended || !its.waiting.contains(member)) continue;
    go(its, member);
    return other;
  }
  return std::nullopt;
}

void LineWays::end(Round round) {
  rounds_.at(round).ended = true;
  forget(round);
}

/// A round that has ended, and of which all has left.
void LineWays::forget(Round round) {
  const auto found = rounds_.find(round);
  if (found->second.ended && std::ranges::count(found->second.out, 0) == members_) rounds_.erase(found);
}

bool LineWays::sends(Round round) const {
  const auto found = rounds_.find(round);
  return found != rounds_.end() && (std::ranges::count(found->second.out, 0) < members_ || waits(round));
}

bool LineWays::waits(Round round) const {
  const auto found = rounds_.find(round);
  return found != rounds_.end() && !found->second.ended && !found->second.waiting.empty();
}

}  // namespace stretto
