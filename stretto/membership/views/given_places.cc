#include "stretto/membership/views/given_places.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto {

GivenPlaces::GivenPlaces(int places, int given) : places_(places), next_(static_cast<MemberNumber>(given)) {
  STRETTO_CHECK(given <= places, given, " of ", places, " places");
  for (int place = 0; place < given; ++place) of_[static_cast<MemberNumber>(place)] = place;
}

bool GivenPlaces::is_free(int place) const {
  return std::ranges::none_of(of_, [place](const auto& taken) { return taken.second == place; });
}

std::optional<GivenPlaces::Given> GivenPlaces::give(std::optional<int> wish) {
  int place = wish && *wish >= 0 && *wish < places_ && is_free(*wish) ? *wish : 0;
  while (place < places_ && !is_free(place)) ++place;
  if (place == places_) return std::nullopt;
  of_[next_] = place;
  return Given{next_++, place};
}

void GivenPlaces::has_come(MemberNumber number, std::optional<int> place) {
  next_ = std::max(next_, number + 1);
  if (place && is_free(*place)) of_.try_emplace(number, *place);
}

}  // namespace stretto
