#pragma once

namespace stretto::command {

/// Seconds from full to issued that TOPO's state machine takes for a buffer of a ResNet-50's gradients, once it follows
/// its plan: the median over steps of one rank. Requires: `steps` ≥ 1.
double measure_bookkeeping(int steps);

}  // namespace stretto::command
