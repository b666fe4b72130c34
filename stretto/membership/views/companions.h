#pragma once

#include <utility>
#include <vector>

#include "stretto/membership/views/view.h"

namespace stretto {

/// Whom a member meets in a world beside that of all, one list of members after the other. Pure: no thread, clock or
/// socket; the caller makes worlds.
class Companions {
 public:
  /// The newest view has these members in its world, in the order of their ranks, itself among them; empty: it is to be
  /// in none. `broken`: the world where it is goes on no more. Returns whether it leaves that now; where members are
  /// added alone it stays until all have come.
  [[nodiscard]] bool want(std::vector<MemberNumber> members, bool broken);
  /// With whom it is in a world; empty: in none.
  const std::vector<MemberNumber>& here() const { return here_; }
  /// For whom it waits, to be in a world with them; empty: for nobody.
  const std::vector<MemberNumber>& awaited() const { return awaited_; }
  /// All of these have come: it is in their world from now on.
  void met() { here_ = std::exchange(awaited_, {}); }

 private:
  std::vector<MemberNumber> here_, awaited_;
};

}  // namespace stretto
