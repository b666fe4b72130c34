#include "stretto/train/ordering/model_collectives.h"

#include "stretto/base/error.h"

namespace stretto {

void ModelCollectives::begin_step() {
  uses_.clear();
  for (auto& [module, times] : times_used_) times = 0;
}

std::string ModelCollectives::next_use(const std::string& module) {
  const int times = ++times_used_[module];
  return times == 1 ? module : text(module, " (", times, ")");
}

void ModelCollectives::reduce(const TensorDescription& tensor, std::span<std::byte> data) const {
  if (!sum_) {
    throw UsageError(text(tensor.name,
                          " is summed over all ranks in the middle of a pass, and nobody does it: expected "
                          "ModelCollectives::sum_by() before the first step"));
  }
  sum_(tensor, data);
}

void ModelCollectives::used(Use use) {
  if (recording_) uses_.push_back(std::move(use));
}

void SumsOverRanks::sum_by(std::shared_ptr<ModelCollectives> collectives, std::string name) {
  collectives_ = std::move(collectives);
  name_ = std::move(name);
}

}  // namespace stretto
