// The parts of TorchReplica by which gradients are reduced tensor by tensor, in the order of the executed graph.

#include <ATen/Tensor.h>

#include "stretto/base/error.h"
#include "stretto/train/ordering/model_collectives.h"
#include "stretto/train/replica/torch_replica_impl.h"

namespace stretto {

void TorchReplica::Impl::hand_over_gradient(std::size_t parameter) {
  if (handed_over_[parameter]) return;
  handed_over_[parameter] = true;
  gradient_ready_(static_cast<int>(parameter));
}

std::span<const TrainedTensor> TorchReplica::trained_tensors() const {
  return impl_->tensors_;
}
int TorchReplica::bucket_of(int parameter) const {
  return impl_->tensors_[static_cast<std::size_t>(parameter)].bucket;
}

void TorchReplica::on_gradient_ready(std::function<void(int parameter)> ready, bool taken) {
  impl_->gradient_ready_ = std::move(ready);
  impl_->taken_ = taken;
}

ModelCollectives* TorchReplica::model_collectives() {
  return impl_->collectives_.get();
}

void TorchReplica::record_graphs(bool on) {
  if (impl_->collectives_ != nullptr) impl_->collectives_->record(on);
  impl_->recorder_.reset();
  impl_->graph_.reset();
  if (!on) return;
  std::vector<ReducedParameter> reduced;
  for (std::size_t i = 0; i < impl_->trained_.size(); ++i) {
    const TrainedTensor& tensor = impl_->tensors_[i];
    reduced.push_back({impl_->trained_[i].tensor, {.name = tensor.name, .type = tensor.type, .count = tensor.count}});
  }
  impl_->recorder_ = std::make_unique<const GraphRecorder>(std::move(reduced), impl_->collectives_);
}

void TorchReplica::backward(const at::Tensor& loss) {
  if (impl_->recorder_ != nullptr) impl_->graph_ = impl_->recorder_->graph_of(loss);
  loss.backward();
}

std::optional<ExecutedGraph> TorchReplica::take_graph() {
  return std::exchange(impl_->graph_, std::nullopt);
}

}  // namespace stretto
