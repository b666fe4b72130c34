#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// The sums over all ranks that one rank's model needs while it computes (SyncBatchNorm), in the forward pass and in
/// the backward pass. Who runs the training says how they are summed; the modules of the model ask for them. All ranks
/// ask for the same tensors. One thread at a time.
class ModelCollectives {
 public:
  /// Puts the sum over all ranks in the place of the elements in `data`. Returns when it is there; so every rank has to
  /// come. Throws Failure.
  using Sum = std::function<void(const TensorDescription& tensor, std::span<std::byte> data)>;

  ModelCollectives() = default;  ///< nobody sums yet
  explicit ModelCollectives(Sum sum) : sum_(std::move(sum)) {}

  /// From now on sums are made so. Null: by nobody.
  void sum_by(Sum sum) { sum_ = std::move(sum); }
  /// Before the first forward pass of each step: forgets the uses of the step before.
  void begin_step();
  /// The name of a module's next use in the step: "norm", and "norm (2)" where it is used again.
  std::string next_use(const std::string& module);
  /// Throws UsageError where nobody sums, and what the sum throws.
  void reduce(const TensorDescription& tensor, std::span<std::byte> data) const;

  /// One use of a module in a forward pass, for who records what a step executes.
  struct Use {
    TensorDescription forward;                  ///< the sum of the forward pass
    std::optional<TensorDescription> backward;  ///< that of the backward pass; none: there is none
    /// The autograd node of the result; null where autograd records nothing. Only to be compared: it may be gone.
    const void* node = nullptr;
    std::uint64_t sequence = 0;  ///< the number that autograd would have given a node when the module asked for the sum
  };
  /// Whether uses are kept; at first they are not.
  void record(bool on) { recording_ = on; }
  void used(Use use);                                     ///< kept if they are recorded
  const std::vector<Use>& uses() const { return uses_; }  ///< of the step, in order

 private:
  Sum sum_;
  bool recording_ = false;
  std::vector<Use> uses_;
  std::unordered_map<std::string, int> times_used_;  // by module, in this step
};

/// Sums where there is one rank: nothing is to be done.
inline void sum_of_one_rank(const TensorDescription& /*tensor*/, std::span<std::byte> /*data*/) {}

/// A module that sums over the ranks while it computes; a mixin of its class.
class SumsOverRanks {
 public:
  virtual ~SumsOverRanks() = default;  ///< with the module
  /// Sums by `collectives`, under the name that the module has in the model.
  void sum_by(std::shared_ptr<ModelCollectives> collectives, std::string name);
  /// As given last; null before.
  const std::shared_ptr<ModelCollectives>& collectives() const { return collectives_; }
  const std::string& name_in_model() const { return name_; }  ///< as given last

 private:
  std::shared_ptr<ModelCollectives> collectives_;
  std::string name_;
};

}  // namespace stretto
