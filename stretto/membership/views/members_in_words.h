#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// "member 3", "members 3, 4".
inline std::string members_in_words(const std::vector<MemberNumber>& numbers) {
  std::string words = numbers.size() == 1 ? "member " : "members ";
  for (std::size_t i = 0; i < numbers.size(); ++i) words += text(i == 0 ? "" : ", ", numbers[i]);
  return words;
}

}  // namespace stretto
