#include "stretto/membership/views/companions.h"

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
  return !std::exchange(here_, {}).empty();
}

}  // namespace stretto
