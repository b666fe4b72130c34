#include "stretto/collective/rounds/lines/node_models.h"

#include <algorithm>

namespace stretto {

StandingModel& NodeModels::acquire() {
  const MutexLock lock(mutex_);
  const auto is_free = [](const auto& model) { return model->pins == 0 && !model->filling; };
  auto free = std::ranges::find_if(models_, is_free);
  if (free == models_.end()) {
    models_.push_back(std::make_unique<StandingModel>(buckets_, static_cast<int>(models_.size())));
    free = models_.end() - 1;
  }
  (*free)->filling = true;
  return **free;
}

StandingModel& NodeModels::publish(StandingModel& model, TimePoint now) {
  const MutexLock lock(mutex_);
  model.filling = false;
  model.published = now;
  model.version = ++versions_;
  ++model.pins;
  return model;
}

void NodeModels::pin(StandingModel& model) {
  const MutexLock lock(mutex_);
  ++model.pins;
}

void NodeModels::unpin(StandingModel& model) {
  const MutexLock lock(mutex_);
  --model.pins;
}

int NodeModels::count() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(models_.size());
}

}  // namespace stretto
