#pragma once

#include <cstddef>

#include "stretto/engine/engine.h"

namespace stretto {

/// So many schedules a collective keeps at least. Making one again takes about a microsecond for each of its
/// operations.
inline constexpr std::size_t kKeptPlans = 64;

/// Makes room for one more in a map of plans: drops those that were used least recently, and has the engine forget
/// their schedules. Stays above kKeptPlans where a round that has not retired runs on each. A plan has its `schedule`,
/// and says which round was `last_opened` with it and how many `open_rounds` have not retired. Driver thread.
template <class Plans>
void drop_idle_plans(Plans& plans, Engine& engine, CollectiveId id) {
  while (plans.size() >= kKeptPlans) {
    auto oldest = plans.end();
    for (auto plan = plans.begin(); plan != plans.end(); ++plan) {
      if (plan->second.open_rounds > 0) continue;
      if (oldest == plans.end() || plan->second.last_opened < oldest->second.last_opened) oldest = plan;
    }
    if (oldest == plans.end()) return;
    engine.forget(id, oldest->second.schedule);
    plans.erase(oldest);
  }
}

}  // namespace stretto
