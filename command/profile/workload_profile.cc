#include "command/profile/workload_profile.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <cstdlib>

#include "stretto/dispenser/batch_plan.h"
#include "stretto/train/profile.h"
#include "workloads/workload.h"

namespace stretto::command {

namespace {

constexpr std::uint64_t kManyEpochs = 1'000'000;

/// The model of the workload, its optimizer, and its batches in the order of a job of one rank.
class Worker {
 public:
  explicit Worker(const WorkloadWorker& worker)
      : workload_(make_workload(worker.data)),
        model_(workload_->make_model(worker.seed)),
        sgd_(model_->parameters(), torch::optim::SGDOptions(workload_->info().lr).momentum(workload_->info().momentum)),
        plan_({.samples = workload_->num_train(),
               .batch = worker.batch,
               .epochs = kManyEpochs,
               .seed = worker.seed,
               .lengths = workload_->lengths(),
               .bucketed = workload_->info().bucketed}) {
    // As the ranks of stretto train do, which share the cores.
    if (std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(1);
    model_->train();
  }

  torch::nn::Module& model() { return *model_; }
  torch::optim::Optimizer& optimizer() { return sgd_; }
  StepLoss loss() {
    return [this](int step) { return workload_->loss(*model_, plan_.batch(static_cast<std::uint64_t>(step)).samples); };
  }

 private:
  const std::unique_ptr<Workload> workload_;
  const std::shared_ptr<torch::nn::Module> model_;
  torch::optim::SGD sgd_;
  BatchPlan plan_;
};

}  // namespace

TrainingProfile profile_workload(const WorkloadWorker& worker, const ProfileOptions& options) {
  Worker here(worker);
  return profile_training(here.model(), here.optimizer(), here.loss(), options);
}

std::vector<double> profiling_cost(const WorkloadWorker& worker, int pairs, int steps) {
  Worker here(worker);
  return stretto::profiling_cost(here.model(), here.optimizer(), here.loss(), pairs, steps);
}

}  // namespace stretto::command
