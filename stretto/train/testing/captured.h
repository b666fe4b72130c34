#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace stretto {

/// The end of testing::internal::CaptureStderr(): what ranks have said, but for the lines in which a leak check names
/// threads that it could not stop.
inline std::string captured_stderr() {
  std::istringstream lines(testing::internal::GetCapturedStderr());
  std::string said;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("==")) said += line + '\n';
  }
  return said;
}

}  // namespace stretto
