#include "stretto/membership/views/pool_change.h"

namespace stretto {

PoolChange change_pool(const Pool& pool, const View& before, const View& next, const BatchesApplied& applied) {
  PoolChange change{pool, {}};
  std::vector<MemberNumber> numbers = pool.members();
  for (const PlacedMember& member : before.members) numbers.push_back(member.number);
  for (const MemberNumber number : numbers) {
    if (next.has(number)) continue;
    const auto dropped = change.pool.give_back(number, applied.of(number), !next.has_departed(number));
    change.dropped.insert(change.dropped.end(), dropped.begin(), dropped.end());
  }
  return change;
}

}  // namespace stretto
