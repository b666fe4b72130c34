#pragma once

#include <gtest/gtest.h>

namespace stretto {

/// For tests: `tolerance` is relative.
inline void expect_near(double value, double expected, double tolerance = 1e-9) {
  EXPECT_NEAR(value / expected, 1, tolerance) << value << " instead of " << expected;
}

}  // namespace stretto
