#include "command/schedule/workload_graph.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <numeric>

#include "stretto/train/replica/torch_replica.h"
#include "workloads/workload.h"

namespace stretto::command {

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
