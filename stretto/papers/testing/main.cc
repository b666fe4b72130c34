#include <gtest/gtest.h>

#include "stretto/papers/register.h"

/// Of tests that train: they know the algorithms of papers, as `stretto` does.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  stretto::register_papers();
  return RUN_ALL_TESTS();
}
