#include "stretto/papers/baselines.h"

#include "stretto/papers/ordering/cycle_fixes.h"
#include "stretto/papers/ordering/cycle_search.h"

namespace stretto {
namespace {

constexpr JobSearch kSearches[] = {
    {"cycles", "the same as ordering, by a coordinator with gs or nbcs", kCycleReaches, run_cycle_job, 2, 5}};

}  // namespace

Baselines ordering_baselines() {
  return {.searches = kSearches, .cycle_fixes = paper_cycle_fixes()};
}

}  // namespace stretto
