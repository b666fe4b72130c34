#pragma once

#include <vector>

#include "stretto/membership/views/view.h"

namespace stretto {

/// By place, whether the model of a member is in the average with which the world of `view` begins, where models are
/// averaged and not carried (docs/protocol.md, rule 17). All false: no average is needed, since all have taken over the
/// model of one member in this world. `own`: whether the model of a member has been in an average since it took over
/// that of another one. `keeps_models`: a round leaves members models of their own, and one that lacks it keeps its.
std::vector<bool> who_weighs(const View& view, const std::vector<bool>& own, bool keeps_models);

}  // namespace stretto
