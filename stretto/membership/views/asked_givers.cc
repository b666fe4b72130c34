#include "stretto/membership/views/asked_givers.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr Duration kForOne = std::chrono::seconds(1);

}  // namespace

AskedGivers::Asked AskedGivers::next(const View& view, MemberNumber comer) {
  const std::vector<MemberNumber> givers = view.givers_for(comer);
  const std::size_t asked = asked_++;
  const Asked one{givers[asked % givers.size()], kForOne * static_cast<int>(1 + asked / givers.size())};
  if (!first_) first_ = one.giver;
  return defect(Defect::givers_first_alone) ? Asked{*first_, one.within} : one;
}

std::vector<MemberNumber> comers_to(const View& view, MemberNumber giver) {
  std::vector<MemberNumber> comers;
  for (const PlacedMember& member : view.members) {
    if (member.held != kNoModel) continue;
    const std::vector<MemberNumber> givers = view.givers_for(member.number);
    if (std::ranges::find(givers, giver) != givers.end()) comers.push_back(member.number);
  }
  return comers;
}

std::string name_of_asking(MemberNumber comer, MemberNumber giver) {
  return text("state for member ", comer, " of member ", giver);
}

}  // namespace stretto
