#include "stretto/membership/views/companions.h"

#include <algorithm>

#include "stretto/base/defect.h"

namespace stretto {

bool Companions::want(std::vector<MemberNumber> members, bool broken) {
  if (defect(Defect::companions_stay_broken)) broken = false;
  if (defect(Defect::companions_await_old) && !awaited_.empty()) return false;
  const bool stays = members == here_ && !broken && !(defect(Defect::companions_always_leave) && awaited_.empty());
  if (stays) {
    awaited_.clear();
    return false;
  }
  awaited_ = std::move(members);
  const auto is_in = [this](MemberNumber member) { return std::ranges::find(awaited_, member) != awaited_.end(); };
  const bool grows = !broken && std::ranges::all_of(here_, is_in);
  if (grows && !defect(Defect::companions_always_leave)) return false;
  return !std::exchange(here_, {}).empty();
}

}  // namespace stretto
