#pragma once

#include "stretto/base/random.h"

namespace torch::nn {
class Module;
}

namespace stretto {

/// Draws every parameter of `layer` uniformly from [−bound, bound], in the order of its parameters. Torch's own
/// initialisation draws alike, but from a generator that differs between its versions.
void draw_parameters(torch::nn::Module& layer, double bound, Random& random);

}  // namespace stretto
