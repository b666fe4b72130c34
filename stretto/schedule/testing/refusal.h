#pragma once

#include <span>
#include <string>

#include "stretto/base/error.h"
#include "stretto/schedule/validate.h"

namespace stretto {

/// For tests: why validate() refuses the schedules, "no error" where it does not.
inline std::string refusal(std::span<const Schedule> schedules) {
  try {
    validate(schedules);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace stretto
