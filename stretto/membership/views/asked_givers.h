#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// Whom a member without a model asks for the state of one that gives it beside training (View::gives), one after the
/// other.
class AskedGivers {
 public:
  struct Asked {
    MemberNumber giver;
    Duration within;  ///< then another one is asked; the longer, the more have been asked in vain
  };
  /// The next one. Requires: `view` has members that give.
  Asked next(const View& view, MemberNumber comer);

 private:
  std::size_t asked_ = 0;
  std::optional<MemberNumber> first_;
};

/// Members of a view that may ask this one.
std::vector<MemberNumber> comers_to(const View& view, MemberNumber giver);

/// The name by which the two meet.
std::string name_of_asking(MemberNumber comer, MemberNumber giver);

}  // namespace stretto
