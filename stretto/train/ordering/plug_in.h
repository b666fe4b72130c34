#pragma once

#include <memory>

#include "stretto/train/ordering/model_collectives.h"

namespace torch::nn {
class Module;
}

namespace stretto {

/// Has every module of `model` that sums over the ranks do it by `collectives`. Returns how many there are.
int plug_in(torch::nn::Module& model, const std::shared_ptr<ModelCollectives>& collectives);

/// By what the modules of `model` sum; null where none does, or none has been told. Throws UsageError where two of them
/// sum by different ones.
std::shared_ptr<ModelCollectives> collectives_of(const torch::nn::Module& model);

}  // namespace stretto
