#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
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

  /// To be stepped once for every `every` batches; 0: for as many as there are ranks by then.
  void add(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every);
  /// So many have been applied by now, when there are so many ranks.
  void applied(std::uint64_t batches, int ranks);

  /// How often each has been stepped, in the order in which they were added.
  std::vector<std::uint64_t> steps() const;
  /// How many batches were applied at the last step of each.
  std::vector<std::uint64_t> batches() const;
  /// Goes on from what these said, with the optimizer's rates as they are; also of schedulers that are yet to be added.
  /// No `batches`: as many as all its steps stand for.
  void restore(std::vector<std::uint64_t> steps, std::vector<std::uint64_t> batches);

  /// How often each has been stepped, and after how many batches, in words for a rank that comes to the job.
  std::string counts() const;
  /// Takes over counts(), with the optimizer's rates as they are. Throws UsageError where those were of other
  /// schedulers.
  void take_counts(const std::string& counts);

 private:
  struct Followed {
    std::shared_ptr<torch::optim::LRScheduler> scheduler;
    std::uint64_t every;
    std::uint64_t steps = 0;
    std::uint64_t at = 0;  // batches, at the last step
  };
  void catch_up(Followed& one, std::uint64_t steps, std::uint64_t at);
  void go_on(std::size_t index);

  torch::optim::Optimizer& optimizer_;
  std::vector<Followed> all_;
  std::vector<std::uint64_t> restored_, restored_at_;
};

}  // namespace stretto
