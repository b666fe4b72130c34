#include "stretto/base/error.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/replica/torch_replica_impl.h"

namespace stretto {

std::optional<DataType> data_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return DataType::float32;
    case at::kDouble: return DataType::float64;
    case at::kBFloat16: return DataType::bfloat16;
    case at::kHalf: return DataType::float16;
    default: return std::nullopt;
  }
}

at::ScalarType scalar_type(DataType type) {
  switch (type) {
    case DataType::float64: return at::kDouble;
    case DataType::bfloat16: return at::kBFloat16;
    case DataType::float16: return at::kHalf;
    default: return at::kFloat;
  }
}

// One pass over addresses, in every step: replicas part without a word where the optimizer moves other memory than is
// averaged.
void TorchReplica::Impl::check_unchanged() const {
  for (const Parameter& p : trained_) {
    const at::ScalarType wrapped = scalar_type(buckets_[static_cast<std::size_t>(p.place.bucket)].type);
    if (p.tensor.scalar_type() != wrapped) {
      throw UsageError(text("parameter ", p.name, " has become ", p.tensor.scalar_type(), " and was ", wrapped,
                            " when it was wrapped: change the model's type before that"));
    }
    if (p.tensor.data_ptr() != p.address) {
      throw UsageError(text("parameter ", p.name,
                            " lies in other memory than when it was wrapped: call model.to() and torch::load() before "
                            "that, or copy values into the parameter (copy_)"));
    }
  }
  for (const Parameter& p : frozen_) {
    if (!p.tensor.requires_grad()) continue;
    throw UsageError(text("parameter ", p.name,
                          " requires a gradient and did not when it was wrapped: unfreeze before that, or freeze later "
                          "what is to stay"));
  }
  std::size_t next = 0;
  for (const auto& group : optimizer_->param_groups()) {
    for (const at::Tensor& tensor : group.params()) {
      if (next < held_.size() && tensor.unsafeGetTensorImpl() == held_[next++]) continue;
      std::string name = "of the optimizer";
      for (const auto& item : model_->named_parameters()) {
        if (item.value().unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl()) name = item.key();
      }
      throw UsageError(
          text("parameter ", name, " was given to the optimizer after it was wrapped: give it all groups before that"));
    }
  }
  if (next != held_.size() || optimizer_->param_groups().size() != initial_lr_.size()) {
    throw UsageError("the optimizer has other groups of parameters than when it was wrapped");
  }
}

std::uint64_t TorchReplica::hash_of_parameters() const {
  Hash64 hash;
  for (const Impl::Parameter& p : impl_->trained_) {
    const at::Tensor flat = p.tensor.contiguous();
    hash.add({static_cast<const std::byte*>(flat.data_ptr()), flat.nbytes()});
  }
  return hash.value();
}

}  // namespace stretto
