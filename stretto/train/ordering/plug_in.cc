#include "stretto/train/ordering/plug_in.h"

#include <torch/nn/module.h>

#include "stretto/base/error.h"

namespace stretto {

int plug_in(torch::nn::Module& model, const std::shared_ptr<ModelCollectives>& collectives) {
  int plugged = 0;
  for (const auto& item : model.named_modules()) {
    auto* module = dynamic_cast<SumsOverRanks*>(item.value().get());
    if (module == nullptr) continue;
    module->sum_by(collectives, item.key());
    ++plugged;
  }
  return plugged;
}

std::shared_ptr<ModelCollectives> collectives_of(const torch::nn::Module& model) {
  std::shared_ptr<ModelCollectives> found;
  for (const auto& module : model.modules()) {
    const auto* sums = dynamic_cast<const SumsOverRanks*>(module.get());
    if (sums == nullptr || sums->collectives() == nullptr) continue;
    if (found != nullptr && found != sums->collectives()) {
      throw UsageError(text("module ", sums->name_in_model(),
                            " sums over the ranks by other ModelCollectives than another module of the model: expected "
                            "one plug_in() for the whole model"));
    }
    found = sums->collectives();
  }
  return found;
}

}  // namespace stretto
