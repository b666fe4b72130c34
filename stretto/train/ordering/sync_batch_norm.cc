#include "stretto/train/ordering/sync_batch_norm.h"

#include <ATen/SequenceNumber.h>
#include <ATen/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>

#include <ostream>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// All dimensions but the channels.
std::vector<std::int64_t> all_but_channels(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t d = 2; d < input.dim(); ++d) dimensions.push_back(d);
  return dimensions;
}

/// One number a channel, to be combined with `input`, in its type.
at::Tensor as_channels_of(const at::Tensor& input, const at::Tensor& numbers) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = input.size(1);
  return numbers.to(input.scalar_type()).view(shape);
}

at::Tensor sum_of_channels(const at::Tensor& values) {
  return values.to(at::kDouble).sum(all_but_channels(values));
}

TensorDescription sums_named(std::string name, std::int64_t count) {
  return {.name = std::move(name), .type = DataType::float64, .count = static_cast<std::uint64_t>(count)};
}

void reduce(const ModelCollectives& collectives, const TensorDescription& description, const at::Tensor& sums) {
  collectives.reduce(description, {static_cast<std::byte*>(sums.data_ptr()), sums.nbytes()});
}

/// The sum that a backward pass asks for; kept with the node of its forward pass.
struct BackwardSum final : torch::CustomClassHolder {
  BackwardSum(std::shared_ptr<ModelCollectives> by, TensorDescription sums)
      : collectives(std::move(by)), description(std::move(sums)) {}
  const std::shared_ptr<ModelCollectives> collectives;
  const TensorDescription description;
};

/// With mean and deviation given as numbers that need no gradient: what depends on them is in the backward pass.
class Normalization final : public torch::autograd::Function<Normalization> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                            double count, const c10::intrusive_ptr<BackwardSum>& sum) {
    context->save_for_backward({input, weight, mean, inverse_deviation});
    context->saved_data["count"] = count;
    context->saved_data["sum"] = c10::IValue::make_capsule(sum);
    return (input - as_channels_of(input, mean)) * as_channels_of(input, inverse_deviation) *
               as_channels_of(input, weight) +
           as_channels_of(input, bias);
  }

  // With x̂ the normalized input and means over all ranks' samples:
  // dx = weight / deviation × (dy − mean of dy − x̂ × mean of dy·x̂).
  static variable_list backward(AutogradContext* context, variable_list outputs) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse_deviation = saved[3];
    const at::Tensor& gradient = outputs[0];
    const at::Tensor normalized = (input - as_channels_of(input, mean)) * as_channels_of(input, inverse_deviation);
    const at::Tensor sums = at::cat({sum_of_channels(gradient), sum_of_channels(gradient * normalized)});
    const std::int64_t channels = input.size(1);
    variable_list inputs(7);
    inputs[1] = sums.narrow(0, channels, channels).to(weight.scalar_type(), false, true);
    inputs[2] = sums.narrow(0, 0, channels).to(weight.scalar_type(), false, true);
    if (!context->needs_input_grad(0)) return inputs;
    const auto sum = c10::static_intrusive_pointer_cast<BackwardSum>(context->saved_data["sum"].toCapsule());
    reduce(*sum->collectives, sum->description, sums);
    const at::Tensor means = sums / context->saved_data["count"].toDouble();
    const at::Tensor scale = inverse_deviation * weight.to(at::kDouble);
    inputs[0] = (gradient - as_channels_of(input, means.narrow(0, 0, channels)) -
                 normalized * as_channels_of(input, means.narrow(0, channels, channels))) *
                as_channels_of(input, scale);
    return inputs;
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& given) : options(given) {
  SyncBatchNormImpl::reset();
}

void SyncBatchNormImpl::reset() {
  const std::int64_t channels = options.num_features();
  if (options.affine()) {
    weight = register_parameter("weight", at::ones({channels}));
    bias = register_parameter("bias", at::zeros({channels}));
  } else {
    weight = register_parameter("weight", at::Tensor(), false);
    bias = register_parameter("bias", at::Tensor(), false);
  }
  if (options.track_running_stats()) {
    running_mean = register_buffer("running_mean", at::zeros({channels}));
    running_var = register_buffer("running_var", at::ones({channels}));
    num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
  } else {
    running_mean = register_buffer("running_mean", at::Tensor());
    running_var = register_buffer("running_var", at::Tensor());
    num_batches_tracked = register_buffer("num_batches_tracked", at::Tensor());
  }
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "stretto::SyncBatchNorm(" << options.num_features() << ")";
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (input.dim() < 2 || input.dim() > 4 || input.size(1) != options.num_features() ||
      (input.scalar_type() != at::kFloat && input.scalar_type() != at::kDouble)) {
    throw UsageError(text("an input of ", input.scalar_type(), " ", input.sizes(),
                          ": expected Float or Double, 2 to 4 ", "dimensions, and ", options.num_features(),
                          " channels in the second"));
  }
  if (is_training() || !running_mean.defined()) return normalize(input);
  return at::batch_norm(input, weight, bias, running_mean, running_var, false, 0, options.eps(), false);
}

at::Tensor SyncBatchNormImpl::normalize(const at::Tensor& input) {
  if (collectives() == nullptr) throw UsageError("a SyncBatchNorm before plug_in(): expected what sums over the ranks");
  const std::int64_t channels = input.size(1);
  const std::string use = collectives()->next_use(name_in_model());
  ModelCollectives::Use record{.forward = sums_named(use + ".sums", 2 * channels + 1),
                               .sequence = at::sequence_number::peek()};
  at::Tensor mean, variance;
  double count = 0;
  {
    const at::NoGradGuard no_gradients;
    const double here = static_cast<double>(input.numel()) / static_cast<double>(channels);
    const at::Tensor sums = at::cat(
        {sum_of_channels(input), sum_of_channels(input.to(at::kDouble).square()), at::full({1}, here, at::kDouble)});
    reduce(*collectives(), record.forward, sums);
    count = sums[2 * channels].item<double>();
    if (count <= 1) {
      throw UsageError(text(record.forward.name, ": ", count,
                            " numbers a channel on all ranks together: expected at least two to normalize by"));
    }
    mean = sums.narrow(0, 0, channels) / count;
    variance = (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min(0);
    if (is_training() && running_mean.defined()) track(mean, variance, count);
  }
  const auto sum = c10::make_intrusive<BackwardSum>(collectives(), sums_named(use + ".gradient_sums", 2 * channels));
  // A node has no input that is undefined.
  at::Tensor output = Normalization::apply(input, weight.defined() ? weight : at::ones({channels}, input.options()),
                                           bias.defined() ? bias : at::zeros({channels}, input.options()), mean,
                                           (variance + options.eps()).rsqrt(), count, sum);
  record.node = output.grad_fn().get();
  if (record.node != nullptr && input.requires_grad()) record.backward = sum->description;
  collectives()->used(std::move(record));
  return output;
}

// As BatchNorm: the variance that is tracked is that of a sample, with count − 1.
void SyncBatchNormImpl::track(const at::Tensor& mean, const at::Tensor& variance, double count) {
  num_batches_tracked.add_(1);
  const double share = options.momentum().value_or(1 / static_cast<double>(num_batches_tracked.item<std::int64_t>()));
  running_mean.mul_(1 - share).add_(mean.to(running_mean.scalar_type()), share);
  running_var.mul_(1 - share).add_((variance * (count / (count - 1))).to(running_var.scalar_type()), share);
}

int plug_in(torch::nn::Module& model, const std::shared_ptr<ModelCollectives>& collectives) {
  int plugged = 0;
  for (const auto& item : model.named_modules()) {
    auto* module = dynamic_cast<SumsOverRanks*>(item.value().get());
    if (module == nullptr) continue;
    module->sum_by(collectives, item.key());
    ++plugged;
  }
  return plugged;
}

std::shared_ptr<ModelCollectives> collectives_of(const torch::nn::Module& model) {
  std::shared_ptr<ModelCollectives> found;
  for (const auto& module : model.modules()) {
    const auto* sums = dynamic_cast<const SumsOverRanks*>(module.get());
    if (sums == nullptr || sums->collectives() == nullptr) continue;
    if (found != nullptr && found != sums->collectives()) {
      throw UsageError(text("module ", sums->name_in_model(),
                            " sums over the ranks by other ModelCollectives than another module of the model: expected "
                            "one plug_in() for the whole model"));
    }
    found = sums->collectives();
  }
  return found;
}

}  // namespace stretto
