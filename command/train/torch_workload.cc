#include "command/train/torch_workload.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "stretto/dispenser/batch_plan.h"
#include "stretto/train/profile.h"
#include "stretto/train/replica/torch_replica.h"
#include "workloads/workload.h"

namespace stretto::command {

namespace {

class RankWorkload final : public RankTask {
 public:
  RankWorkload(std::shared_ptr<const Dataset> data, const RankTaskOptions& options)
      : workload_(make_workload(std::move(data))), model_(workload_->make_model(options.seed)) {
    const auto sgd = torch::optim::SGDOptions(options.lr).momentum(options.momentum);
    if (!options.evaluates) warm_up(options.seed);
    replica_ =
        std::make_unique<TorchReplica>(model_, std::make_shared<torch::optim::SGD>(model_->parameters(), sgd),
                                       TorchReplicaOptions{.by_layer = options.by_layer, .announces_reads = true});
  }

  Replica& replica() override { return *replica_; }

  // The models draw nothing while they train.
  double forward_backward(std::span<const std::uint32_t> samples, std::uint64_t) override {
    model_->train();
    const at::Tensor loss =
        workload_->loss(*model_, samples, [this](const torch::nn::Module& layer) { replica_->about_to_read(layer); });
    replica_->about_to_read(*model_);
    replica_->backward(loss);
    return loss.item<double>();
  }

  TaskScore score_test() override { return score(Split::test); }
  TaskScore score_training() override { return score(Split::train); }

 private:
  // The first pass of a process loads and prepares more than it computes; on a model of its own, so that nothing of it
  // is left.
  void warm_up(std::uint64_t seed) {
    const auto model = workload_->make_model(seed);
    workload_->loss(*model, std::array<std::uint32_t, 1>{0}).backward();
  }

  TaskScore score(Split split) {
    model_->eval();
    const Evaluation evaluation = workload_->evaluate(*model_, split);
    return {evaluation.loss, evaluation.accuracy, evaluation.top5};
  }

  const std::unique_ptr<Workload> workload_;
  const std::shared_ptr<torch::nn::Module> model_;
  std::unique_ptr<TorchReplica> replica_;
};

class WorkloadTask final : public TrainingTask {
 public:
  explicit WorkloadTask(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {
    const WorkloadInfo& info = data_->info();
    facts_.name = info.name;
    facts_.unit = info.unit;
    facts_.samples = data_->num_train();
    facts_.lengths.assign(data_->lengths().begin(), data_->lengths().end());
    facts_.labels = data_->labels();
    facts_.bucketed = info.bucketed;
    facts_.classifies = info.classifies;
    facts_.sums_in_passes = info.sums_in_passes;
    facts_.batch = info.batch;
    facts_.lr = info.lr;
    facts_.momentum = info.momentum;
    facts_.epochs = info.epochs;
  }

  const TaskFacts& facts() const override { return facts_; }
  std::unique_ptr<RankTask> start_rank(const RankTaskOptions& options) const override {
    // As torchrun does: ranks share the cores, and threads of each that spin would take them from one another.
    if (options.evaluates || std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(1);
    // The first call makes the number this thread's own, so that a thread that evaluates changes that of no other.
    (void)at::get_num_threads();
    return std::make_unique<RankWorkload>(data_, options);
  }

 private:
  const std::shared_ptr<const Dataset> data_;
  TaskFacts facts_;
};

}  // namespace

std::unique_ptr<TrainingTask> workload_task(std::shared_ptr<const Dataset> data) {
  return std::make_unique<WorkloadTask>(std::move(data));
}

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

ExecutedGraph executed_graph(const std::shared_ptr<const Dataset>& data, int batch, std::uint64_t seed, int step) {
  const auto workload = make_workload(data);
  const auto model = workload->make_model(seed);
  model->train();
  TorchReplica replica(model, std::make_shared<torch::optim::SGD>(model->parameters(), workload->info().lr));
  std::vector<std::uint32_t> samples(std::min(static_cast<std::uint32_t>(batch), workload->num_train()));
  std::iota(samples.begin(), samples.end(), 0U);
  for (int at = 1; at <= step; ++at) {
    replica.record_graphs(at == step);
    replica.attach_own();
    replica.backward(workload->loss(*model, samples));
  }
  return replica.take_graph().value();
}

}  // namespace stretto::command
