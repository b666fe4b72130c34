#pragma once

#include <cstddef>
#include <span>
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

/// A moment of a pass that was traced: what was done until then, since the mark before it, was work of that layer.
struct PassMark {
  double at = 0;   ///< seconds since the pass began; ascending
  int layer = -1;  ///< −1: not known; it belongs to the layer of the next mark that is known, or else of the last one
};

/// Divides the time of a pass (forward, backward, update) among layers. A traced pass shows who worked when, but
/// tracing disturbs it. An undisturbed pass shows when each layer's gradients were ready, and how long all of it took.
/// So the time between two of those moments is taken from the undisturbed pass, and divided as it was in the traced
/// ones. The seconds of all layers add up to the undisturbed pass.
class PassShares {
 public:
  /// `otherwise`: one number a layer, not all 0; by these a pass is divided of which nothing was traced.
  explicit PassShares(std::vector<double> otherwise);

  /// A pass that was traced. `ready`: when each layer's gradients were, on the clock of the marks; NaN where that is
  /// not known, as in a forward pass.
  void add(std::span<const PassMark> marks, const std::vector<double>& ready);

  /// The seconds of each layer in an undisturbed pass of `length` seconds. Where layers were ready in another order
  /// than in the traced pass, or one was not, the whole pass is divided at once.
  std::vector<double> divide(const std::vector<double>& ready, double length) const;

 private:
  /// Seconds of each layer in one stretch of the pass, by trace; and their medians: a trace that lost its core in one
  /// operation must not count for more than the others.
  struct Stretch {
    std::vector<std::vector<double>> traced;
    std::vector<double> usual;

    void add(std::vector<double> seconds);
  };

  bool in_order(const std::vector<double>& ready) const;

  const std::vector<double> otherwise_;
  std::vector<int> order_;        // layers by when they were ready, in the first pass that was added
  std::vector<Stretch> between_;  // until order_[i] was ready; behind it the rest
  Stretch all_;
};

}  // namespace stretto
