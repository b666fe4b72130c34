#pragma once

#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// For tests: hears of rounds and does nothing.
struct Deaf final : RoundListener {
  void before(const RoundResult&) override {}
  void after(const RoundResult&) override {}
};

}  // namespace stretto
