#pragma once

#include <span>
#include <string>
#include <vector>

#include "stretto/base/function_ref.h"

namespace stretto::command {

/// Has `clean` search each of `names`, whatever it has found in those before. Returns the names in which it was not
/// clean.
inline std::vector<std::string> not_clean(std::span<const std::string> names,
                                          FunctionRef<bool(const std::string&)> clean) {
  std::vector<std::string> found_in;
  for (const std::string& name : names) {
    if (!clean(name)) found_in.push_back(name);
  }
  return found_in;
}

}  // namespace stretto::command
