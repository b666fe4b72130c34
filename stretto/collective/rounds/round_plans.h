#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "stretto/collective/schedules/round_schedules.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"
#include "stretto/schedule/schedule.h"

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

/// The schedule of rounds among the same ranks.
struct GroupPlan {
  explicit GroupPlan(Schedule of) : schedule(std::move(of)) {}
  const Schedule schedule;
  Round last_opened = 0;  ///< with this schedule
  int open_rounds = 0;    ///< that have not retired: the engine refers to the schedule
};

/// The schedules of a group allreduce, by the ranks that exchange messages; those used least recently are dropped.
/// Driver thread.
class GroupPlans {
 public:
  explicit GroupPlans(const std::vector<BucketSpec>& buckets) : buckets_(buckets) {}

  /// For one more round, until the owner counts it off GroupPlan::open_rounds. Requires: the engine's rank is a member.
  GroupPlan& use(Engine& engine, CollectiveId id, Round round, const std::vector<int>& members) {
    auto known = plans_.find(members);
    if (known == plans_.end()) {
      drop_idle_plans(plans_, engine, id);
      Schedule schedule = group_round_schedule(engine.rank(), members, engine.size(), buckets_);
      known = plans_.try_emplace(members, std::move(schedule)).first;
    }
    known->second.last_opened = round;
    ++known->second.open_rounds;
    return known->second;
  }

 private:
  const std::vector<BucketSpec>& buckets_;
  std::map<std::vector<int>, GroupPlan> plans_;
};

}  // namespace stretto
