#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace torch::optim {
class LRScheduler;
class Optimizer;
}  // namespace torch::optim

namespace stretto {

/// The state of LibTorch's default random number generator on the CPU, as numbers: dropout and the like draw from it.
std::vector<std::uint64_t> random_state();

/// Takes over what random_state() gave. Throws UsageError for numbers that are no such state.
void set_random_state(std::span<const std::uint64_t> state);

/// Schedulers of LibTorch that are stepped as batches are applied, and not as a loop goes round. A scheduler of
/// LibTorch has no state to be saved: after a checkpoint it is stepped as often as before, and the rates that were
/// saved stay.
class FollowedSchedulers {
 public:
  /// The optimizer whose rates they set; outlives this.
  explicit FollowedSchedulers(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {}

  /// To be stepped once for every `every` batches.
  void add(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every);
  /// So many have been applied by now.
  void applied(std::uint64_t batches);

  /// How often each has been stepped, in the order in which they were added.
  std::vector<std::uint64_t> steps() const;
  /// Goes on from what steps() said, with the optimizer's rates as they are; also of schedulers that are yet to be
  /// added.
  void restore(std::vector<std::uint64_t> steps);

 private:
  struct Followed {
    std::shared_ptr<torch::optim::LRScheduler> scheduler;
    std::uint64_t every;
    std::uint64_t steps = 0;
  };
  void catch_up(std::size_t index);

  torch::optim::Optimizer& optimizer_;
  std::vector<Followed> all_;
  std::vector<std::uint64_t> restored_;
};

}  // namespace stretto
