#pragma once

#include <string>
#include <vector>

#include "stretto/predict/model/training_job.h"

namespace stretto {

/// One operation of a forward pass as autograd has recorded it, or a parameter, where the recording ends.
struct Operation {
  std::string name;           ///< "Cat": what a layer without parameters is called
  std::vector<int> inputs{};  ///< the operations whose outputs it reads, by index; all stand before it
  int module = -1;            ///< of a parameter: the module that holds it, by index; −1: it is no parameter
  /// Its only input is a parameter, or was made of one in this way, and it hands on as many numbers: a transposed
  /// weight. So it is part of the operation that reads it.
  bool reshapes = false;
};

/// A module that holds parameters itself.
struct ParameterModule {
  std::string name;
  double bytes = 0;  ///< of its trained parameters
};

/// Which operation belongs to which layer.
struct LayerMap {
  /// Names, bytes, and what each is after; no times. In the order of the forward pass, sorted as a ProfiledStep is.
  ProfiledStep layers;
  std::vector<int> layer_of;         ///< of each operation
  std::vector<int> layer_of_module;  ///< the one that has its bytes; −1: no operation reads its parameters
};

/// The layers of a model, from the graph of one forward pass. A layer is a module with parameters, with the operations
/// that read its parameters and those behind them that have none (an activation, a pooling). Where branches meet and no
/// module follows from one of them alone ("Cat"), the operation is a layer of its own, of 0 bytes. A module that is
/// used again, behind layers that have read its output, is another layer there, of 0 bytes: "embedding (2)". So each
/// layer's gradients are ready when its backward pass is over, and there is no circle.
LayerMap map_layers(const std::vector<Operation>& operations, const std::vector<ParameterModule>& modules);

}  // namespace stretto
