#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/rounds/groups/standing_models.h"

namespace stretto {

/// The models that a node of a grid has published: copies that its lines pin while they send them, and until the
/// application has used what came of them. A line contributes one at a time, so that d + 2 are enough: the newest, one
/// that each line has contributed, and one that is written to. The application's thread and the engine's share it.
class NodeModels {
 public:
  explicit NodeModels(std::span<const BucketSpec> buckets) : buckets_(buckets.begin(), buckets.end()) {}

  /// A model that nobody has pinned, to write to. Application thread.
  StandingModel& acquire();
  /// Makes it the newest, pinned once for the caller, who unpin()s it. Application thread.
  StandingModel& publish(StandingModel& model, TimePoint now);
  void pin(StandingModel& model);
  void unpin(StandingModel& model);
  /// So many there are.
  int count() const;

 private:
  const std::vector<BucketSpec> buckets_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<StandingModel>> models_ GUARDED_BY(mutex_);
  std::uint64_t versions_ GUARDED_BY(mutex_) = 0;
};

}  // namespace stretto
