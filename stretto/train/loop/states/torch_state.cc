#include "stretto/train/loop/states/torch_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sstream>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

constexpr std::uint64_t kLargest = 1 << 20;  // bytes; a Mersenne twister has 5,056

}  // namespace

std::vector<std::uint64_t> random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  const at::Tensor bytes = generator.get_state();
  // The number of bytes comes first: they need not fill the last number.
  std::vector<std::uint64_t> state(1 + (bytes.nbytes() + 7) / 8);
  state[0] = bytes.nbytes();
  std::memcpy(&state[1], bytes.data_ptr(), bytes.nbytes());
  return state;
}

void set_random_state(std::span<const std::uint64_t> state) {
  if (state.empty() || state[0] > kLargest || state.size() != 1 + (state[0] + 7) / 8) {
    throw UsageError("the state of the random numbers in a checkpoint is truncated");
  }
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(state[0])}, at::TensorOptions().dtype(at::kByte));
  std::memcpy(bytes.data_ptr(), &state[1], state[0]);
  try {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    generator.set_state(bytes);
  } catch (const c10::Error& error) {
    throw UsageError(text("the state of the random numbers in a checkpoint: ", error.what_without_backtrace()));
  }
}

void FollowedSchedulers::add(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every) {
  all_.push_back({std::move(scheduler), every});
  if (all_.size() <= restored_.size()) go_on(all_.size() - 1);
}

void FollowedSchedulers::applied(std::uint64_t batches, int ranks) {
  for (Followed& one : all_) {
    const std::uint64_t every = one.every != 0 ? one.every : static_cast<std::uint64_t>(ranks);
    for (; one.at + every <= batches; one.at += every, ++one.steps) one.scheduler->step();
  }
}

std::vector<std::uint64_t> FollowedSchedulers::steps() const {
  std::vector<std::uint64_t> steps;
  for (const Followed& one : all_) steps.push_back(one.steps);
  return steps;
}

std::vector<std::uint64_t> FollowedSchedulers::batches() const {
  std::vector<std::uint64_t> batches;
  for (const Followed& one : all_) batches.push_back(one.at);
  return batches;
}

void FollowedSchedulers::restore(std::vector<std::uint64_t> steps, std::vector<std::uint64_t> batches) {
  restored_ = std::move(steps);
  restored_at_ = std::move(batches);
  for (std::size_t i = 0; i < std::min(all_.size(), restored_.size()); ++i) go_on(i);
}

void FollowedSchedulers::go_on(std::size_t index) {
  Followed& one = all_[index];
  catch_up(one, restored_[index], restored_at_.empty() ? restored_[index] * one.every : restored_at_[index]);
}

std::string FollowedSchedulers::counts() const {
  std::string counts;
  for (const Followed& one : all_) counts += text(one.every, ' ', one.steps, ' ', one.at, ' ');
  return counts;
}

void FollowedSchedulers::take_counts(const std::string& counts) {
  std::istringstream words(counts);
  std::uint64_t every = 0, steps = 0, at = 0;
  std::size_t index = 0;
  for (; words >> every >> steps >> at; ++index) {
    if (index >= all_.size() || all_[index].every != every) break;
    catch_up(all_[index], steps, at);
  }
  if (words || index != all_.size()) throw UsageError("follow(): other schedulers here than on the others' ranks");
}

void FollowedSchedulers::catch_up(Followed& one, std::uint64_t steps, std::uint64_t at) {
  one.at = at;
  auto& groups = optimizer_.param_groups();
  std::vector<double> rates;
  for (auto& group : groups) rates.push_back(group.options().get_lr());
  for (; one.steps < steps; ++one.steps) one.scheduler->step();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
}

}  // namespace stretto
