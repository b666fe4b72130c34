#include "stretto/membership/views/average_weights.h"

#include <algorithm>

#include "stretto/base/defect.h"

namespace stretto {

std::vector<bool> who_weighs(const View& view, const std::vector<bool>& own, bool keeps_models) {
  std::vector<bool> brings, weigh;  // a model that it has not taken over in this world
  for (std::size_t place = 0; place < view.members.size(); ++place) {
    const RoundsHeld held = view.members[place].held;
    const bool lacks_none = held == static_cast<RoundsHeld>(view.complete);
    const bool learns = held == kNoModel;
    brings.push_back(keeps_models ? !learns : lacks_none);
    weigh.push_back((keeps_models || lacks_none) && own[place]);
    if (defect(Defect::averaged_learner_weighs) && learns) weigh.back() = true;
    if (defect(Defect::averaged_copy_weighs) && !learns && !lacks_none) weigh.back() = true;
  }
  if (std::ranges::count(weigh, true) > 0 || defect(Defect::averaged_copies_differ)) return weigh;
  // Those whose models these are copies of are lost, and the copies may be of several: an average makes them one.
  return std::ranges::count(brings, true) > 1 ? brings : weigh;
}

}  // namespace stretto
