#pragma once

#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/predict/model/training_job.h"

namespace stretto {

/// The layers in an order in which each stands behind those it reads from, otherwise as before. In `layers` the indices
/// in `after` may name any layer. Errc::bad_input says which layers read from each other in a circle.
/// Requires: indices are those of layers.
Result<ProfiledStep> in_topological_order(std::vector<Layer> layers);

}  // namespace stretto
