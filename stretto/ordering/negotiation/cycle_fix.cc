#include "stretto/ordering/negotiation/cycle_fix.h"

#include <algorithm>
#include <vector>

namespace stretto {
namespace {

std::vector<const CycleFix*>& fixes() {
  static std::vector<const CycleFix*> all;
  return all;
}

}  // namespace

void register_cycle_fix(const CycleFix& fix) {
  if (std::ranges::count(fixes(), &fix) == 0) fixes().push_back(&fix);
}

std::span<const CycleFix* const> cycle_fixes() {
  return fixes();
}

}  // namespace stretto
