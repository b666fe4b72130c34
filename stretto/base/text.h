#pragma once

#include <sstream>
#include <string>

namespace stretto {

/// The arguments written one after the other, as operator<< writes them.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace stretto
