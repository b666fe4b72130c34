#include "stretto/train/loop/followed_schedulers.h"

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <utility>

namespace stretto {

void FollowedSchedulers::add(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every) {
  all_.push_back({std::move(scheduler), every});
  catch_up(all_.size() - 1);
}

void FollowedSchedulers::applied(std::uint64_t batches) {
  for (Followed& one : all_) {
    for (; one.steps < batches / one.every; ++one.steps) one.scheduler->step();
  }
}

std::vector<std::uint64_t> FollowedSchedulers::steps() const {
  std::vector<std::uint64_t> steps;
  for (const Followed& one : all_) steps.push_back(one.steps);
  return steps;
}

void FollowedSchedulers::restore(std::vector<std::uint64_t> steps) {
  restored_ = std::move(steps);
  for (std::size_t i = 0; i < all_.size(); ++i) catch_up(i);
}

void FollowedSchedulers::catch_up(std::size_t index) {
  if (index >= restored_.size()) return;
  auto& groups = optimizer_.param_groups();
  std::vector<double> rates;
  for (auto& group : groups) rates.push_back(group.options().get_lr());
  for (Followed& one = all_[index]; one.steps < restored_[index]; ++one.steps) one.scheduler->step();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
}

}  // namespace stretto
