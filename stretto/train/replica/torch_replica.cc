#include "stretto/train/replica/torch_replica.h"

#include <ATen/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_set>

#include "stretto/base/error.h"
#include "stretto/train/ordering/sync_batch_norm.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/replica/torch_replica_impl.h"

namespace stretto {
namespace {

using Parameter = TorchReplica::Impl::Parameter;

constexpr double kForwardShare = 1.0 / 3;  // a backward pass multiplies twice as often

std::span<std::byte> memory_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

at::Tensor view_into(const at::Tensor& flat, const Parameter& parameter) {
  return flat.narrow(0, static_cast<std::int64_t>(parameter.place.offset), parameter.tensor.numel())
      .view(parameter.tensor.sizes());
}

std::vector<Parameter> parameters_of(const torch::nn::Module& model, const torch::optim::Optimizer& optimizer) {
  std::vector<Parameter> parameters;
  std::unordered_set<const void*> seen;  // tied weights have several names and are one parameter
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) parameters.push_back({name, tensor});
  };
  for (const auto& item : model.named_parameters()) add(item.key(), item.value());
  int number = 0;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& tensor : group.params()) add(text("optimizer.parameter", number++), tensor);
  }
  return parameters;
}

// In the order of the groups.
std::vector<at::Tensor> held_by(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> held;
  for (const auto& group : optimizer.param_groups())
    held.insert(held.end(), group.params().begin(), group.params().end());
  return held;
}

// A hash of some of its numbers: who scales a gradient changes them all. (A tensor's version does not tell:
// torch::nn::utils::clip_grad_norm_() goes round it.)
std::uint64_t sample_of(const at::Tensor& gradient) {
  if (gradient.layout() != at::kStrided || !gradient.is_contiguous()) return 0;
  constexpr std::size_t kNumbers = 16;
  const auto* bytes = static_cast<const std::byte*>(gradient.data_ptr());
  const std::size_t size = gradient.element_size(), count = gradient.nbytes() / size;
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < count; i += std::max<std::size_t>(1, count / kNumbers)) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes + i * size, std::min(size, sizeof bits));
    hash = (hash ^ bits) * 0x9e3779b97f4a7c15;
  }
  return hash;
}

bool ends_with_part(const std::string& name, std::string_view part) {
  return name == part || name.ends_with(text(".", part));
}

void describe(std::string& out, const std::string& name, const at::Tensor& tensor, const char* what) {
  out += text(what, " ", name, " ", tensor.scalar_type(), " ", tensor.sizes(), "\n");
}

}  // namespace

namespace {

class ReadyHook final : public torch::autograd::FunctionPostHook {
 public:
  ReadyHook(TorchReplica::Impl& replica, std::size_t parameter) : replica_(replica), parameter_(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    replica_.gradient_ready(parameter_);
    return outputs;
  }

 private:
  TorchReplica::Impl& replica_;
  std::size_t parameter_;
};

}  // namespace

TorchReplica::Impl::Impl(std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
                         const TorchReplicaOptions& options)
    : model_(std::move(model)), optimizer_(std::move(optimizer)) {
  if (model_ == nullptr) throw UsageError("the model is null");
  if (optimizer_ == nullptr) throw UsageError("the optimizer is null");
  if (dynamic_cast<const torch::optim::LBFGS*>(optimizer_.get()) != nullptr) {
    throw UsageError("LBFGS evaluates the model several times a step by a closure; expected an optimizer without one");
  }
  if (!(options.clip_norm >= 0) || !std::isfinite(options.clip_norm)) {
    throw UsageError(
        text("clip-norm ", options.clip_norm, ": expected the largest 2-norm of a gradient, or 0 for none"));
  }
  const at::NoGradGuard no_grad;
  std::vector<Parameter> parameters = parameters_of(*model_, *optimizer_);
  std::unordered_set<const void*> held;
  for (const at::Tensor& tensor : held_by(*optimizer_)) {
    held_.push_back(tensor.unsafeGetTensorImpl());
    held.insert(held_.back());
  }
  std::vector<ParameterSpec> specs;
  for (Parameter& parameter : parameters) {
    const bool is_held = held.contains(parameter.tensor.unsafeGetTensorImpl()) && parameter.tensor.numel() > 0;
    const bool trained = is_held && parameter.tensor.requires_grad();
    if (is_held && !trained) frozen_.push_back(parameter);
    const auto type = data_type(parameter.tensor);
    if (trained && (!type || !parameter.tensor.device().is_cpu())) {
      throw UsageError(text("parameter ", parameter.name, " is ", parameter.tensor.scalar_type(), " on ",
                            parameter.tensor.device(),
                            "; gradients are averaged as Float, Double, BFloat16 or Half on cpu"));
    }
    describe(description_, parameter.name, parameter.tensor, trained ? "parameter" : "frozen parameter");
    specs.push_back({parameter.name, type.value_or(DataType::float32),
                     static_cast<std::uint64_t>(parameter.tensor.numel()), trained});
  }
  const BucketPlan plan = plan_buckets(specs, options.bucket_bytes, options.by_layer);
  if (plan.buckets.empty()) throw UsageError("the optimizer holds no parameter that requires a gradient");
  buckets_ = plan.buckets;
  for (const BucketSpec& bucket : buckets_) {
    const auto sizes = static_cast<std::int64_t>(bucket.count);
    const auto type = at::TensorOptions().dtype(scalar_type(bucket.type));
    flat_.push_back(at::empty({sizes}, type));
    own_.push_back(at::empty({sizes}, type));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = parameters[i];
    parameter.place = plan.placements[i];
    if (parameter.place.bucket < 0) {
      parameter.tensor.set_data(parameter.tensor.contiguous());
      others_.push_back(parameter.tensor);
      continue;
    }
    const auto bucket = static_cast<std::size_t>(parameter.place.bucket);
    at::Tensor view = view_into(flat_[bucket], parameter);
    view.copy_(parameter.tensor);
    parameter.tensor.set_data(view);
    parameter.address = view.data_ptr();
    trained_.push_back(parameter);
  }
  std::sort(trained_.begin(), trained_.end(), [](const Parameter& a, const Parameter& b) {
    return std::pair(a.place.bucket, a.place.offset) < std::pair(b.place.bucket, b.place.offset);
  });
  for (std::size_t b = 0; b <= buckets_.size(); ++b) {
    first_in_bucket_.push_back(
        static_cast<std::size_t>(std::count_if(trained_.begin(), trained_.end(), [&](const Parameter& p) {
          return static_cast<std::size_t>(p.place.bucket) < b;
        })));
  }
  add_buffers();
  for (auto& group : optimizer_->param_groups()) initial_lr_.push_back(group.options().get_lr());
  optimizer_description_ = describe_optimizer();
  std::vector<std::span<std::byte>> own;
  for (const at::Tensor& flat : own_) own.push_back(memory_of(flat));
  own_set_ = make_set(own);
  for (const Parameter& p : trained_) {
    const auto bucket = static_cast<std::size_t>(p.place.bucket);
    tensors_.push_back(
        {p.name, buckets_[bucket].type, static_cast<std::uint64_t>(p.tensor.numel()), p.place.bucket, p.place.offset});
  }
  collectives_ = collectives_of(*model_);
  clip_norm_ = options.clip_norm;
  announces_reads_ = options.announces_reads;
  there_.assign(trained_.size(), true);
  add_hooks();
}

void TorchReplica::Impl::add_buffers() {
  std::map<std::string, std::size_t> means;  // by the name of their module
  for (auto& item : model_->named_buffers()) {
    at::Tensor buffer = item.value();
    const std::string& name = item.key();
    if (!buffer.defined()) continue;
    describe(description_, name, buffer, "buffer");
    buffer.set_data(buffer.contiguous());
    others_.push_back(buffer);
    if (buffer.scalar_type() == at::kLong && ends_with_part(name, "num_batches_tracked")) counts_.push_back(buffer);
    if (!data_type(buffer)) continue;
    const std::string module = name.substr(0, name.rfind('.') + 1);
    if (ends_with_part(name, "running_mean")) means[module] = buffers_.size();
    if (ends_with_part(name, "running_var") && means.contains(module)) {
      moments_.emplace_back(means[module], buffers_.size());
    }
    buffers_.push_back(buffer);
  }
}

void TorchReplica::Impl::add_hooks() {
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(trained_[i].tensor);
    const std::uintptr_t key = accumulator->add_post_hook(std::make_unique<ReadyHook>(*this, i));
    hooks_.emplace_back(std::move(accumulator), key);
  }
}

TorchReplica::Impl::~Impl() {
  for (auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

TorchReplica::Impl::GradientSet TorchReplica::Impl::make_set(Memory memory) const {
  STRETTO_CHECK(memory.size() == buckets_.size(), memory.size(), " spans for ", buckets_.size(), " buckets");
  GradientSet set{{memory.begin(), memory.end()}, {}};
  for (const Parameter& p : trained_) {
    const auto b = static_cast<std::size_t>(p.place.bucket);
    std::byte* address = memory[b].data() + p.place.offset * size_of(buckets_[b].type);
    // A tensor of its own, not a view of a flat one: Optimizer::zero_grad() cannot detach views.
    set.tensors.push_back(at::from_blob(address, p.tensor.sizes(), p.tensor.options().requires_grad(false)));
  }
  return set;
}

void TorchReplica::Impl::point_at(const GradientSet& set) {
  attached_ = &set;
  for (std::size_t i = 0; i < trained_.size(); ++i) trained_[i].tensor.mutable_grad() = set.tensors[i];
}

void TorchReplica::Impl::begin_pass(const GradientSet& set) {
  for (const auto& bytes : set.memory) std::memset(bytes.data(), 0, bytes.size());
  point_at(set);
  there_.assign(trained_.size(), false);
  complete_.assign(trained_.size(), false);
  sample_.assign(trained_.size(), 0);
  missing_.resize(buckets_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) missing_[b] = first_in_bucket_[b + 1] - first_in_bucket_[b];
  handed_over_.assign(trained_.size(), false);
  next_bucket_ = 0;
  passed_twice_ = accumulating_ = changed_ = false;
  if (collectives_ != nullptr) collectives_->begin_step();
}

void TorchReplica::Impl::collect(int bucket) {
  const auto b = static_cast<std::size_t>(bucket);
  for (std::size_t i = first_in_bucket_[b]; i < first_in_bucket_[b + 1]; ++i) bring_home(i);
}

// The memory is the contract, .grad only where autograd adds up.
void TorchReplica::Impl::bring_home(std::size_t parameter) {
  if (taken_ && gradient_ready_ && handed_over_[parameter]) return;  // another thread may be writing to it
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = trained_[parameter].tensor.mutable_grad();
  at::Tensor home = attached_->tensors[parameter];
  changed_ |= there_[parameter] && gradient.defined() && sample_of(gradient) != sample_[parameter];
  if (!gradient.defined()) {
    home.zero_();
  } else if (gradient.layout() != at::kStrided) {
    throw UsageError(text("the gradient of parameter ", trained_[parameter].name,
                          " is sparse; gradients are averaged as dense ones: make the layer with sparse(false)"));
  } else if (gradient.data_ptr() != home.data_ptr()) {
    home.copy_(gradient);
    there_[parameter] = true;
  }
  // Whatever adds to a gradient by hand has no hook.
  if (!there_[parameter]) there_[parameter] = home.count_nonzero().item<std::int64_t>() > 0;
  gradient = home;
}

double TorchReplica::Impl::bytes_up_to(int bucket) const {
  double sum = 0, all = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto bytes = static_cast<double>(buckets_[b].count * size_of(buckets_[b].type));
    all += bytes;
    if (static_cast<int>(b) <= bucket) sum += bytes;
  }
  return sum / all;
}

void TorchReplica::Impl::hand_over(int bucket) {
  if (progress_) progress_(kForwardShare + (1 - kForwardShare) * bytes_up_to(bucket));
  collect(bucket);
  if (ready_) ready_(bucket);
}

void TorchReplica::Impl::gradient_ready(std::size_t parameter) {
  if (attached_ == nullptr) return;
  there_[parameter] = true;
  const at::Tensor& gradient = trained_[parameter].tensor.grad();
  if (gradient.defined()) sample_[parameter] = sample_of(gradient);
  if (accumulating_) return;
  if (gradient_ready_) {
    passed_twice_ |= handed_over_[parameter];
    bring_home(parameter);
    hand_over_gradient(parameter);
  }
  if (!ready_) return;
  const int bucket = trained_[parameter].place.bucket;
  if (bucket < next_bucket_) passed_twice_ = true;
  if (complete_[parameter]) return;
  complete_[parameter] = true;
  --missing_[static_cast<std::size_t>(bucket)];
  while (next_bucket_ < static_cast<int>(buckets_.size()) && missing_[static_cast<std::size_t>(next_bucket_)] == 0) {
    hand_over(next_bucket_++);
  }
}

TorchReplica::TorchReplica(std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
                           TorchReplicaOptions options)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(optimizer), options)) {}

TorchReplica::~TorchReplica() = default;

torch::nn::Module& TorchReplica::model() {
  return *impl_->model_;
}
torch::optim::Optimizer& TorchReplica::optimizer() const {
  return *impl_->optimizer_;
}
const std::vector<BucketSpec>& TorchReplica::buckets() const {
  return impl_->buckets_;
}
std::string TorchReplica::model_description() const {
  return impl_->description_;
}

void TorchReplica::attach(int set, Memory memory) {
  auto& sets = impl_->sets_;
  if (sets.size() <= static_cast<std::size_t>(set)) sets.resize(static_cast<std::size_t>(set) + 1);
  auto& prepared = sets[static_cast<std::size_t>(set)];
  const auto same = [](std::span<std::byte> a, std::span<std::byte> b) { return a.data() == b.data(); };
  if (!std::equal(prepared.memory.begin(), prepared.memory.end(), memory.begin(), memory.end(), same)) {
    prepared = impl_->make_set(memory);
  }
  impl_->begin_pass(prepared);
}

void TorchReplica::attach_own() {
  impl_->begin_pass(impl_->own_set_);
}

void TorchReplica::detach() {
  auto& impl = *impl_;
  if (impl.attached_ != nullptr && impl.attached_ != &impl.own_set_) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < impl.trained_.size(); ++i) {
      const at::Tensor& gradient = impl.trained_[i].tensor.grad();
      at::Tensor own = impl.own_set_.tensors[i];
      if (gradient.defined() && gradient.is_same(impl.attached_->tensors[i])) own.copy_(gradient);
    }
    impl.point_at(impl.own_set_);
  }
  impl.sets_.clear();
}

void TorchReplica::on_bucket_ready(std::function<void(int)> ready) {
  impl_->ready_ = std::move(ready);
}

ReadsByBucket* TorchReplica::reads_by_bucket() {
  return impl_->announces_reads_ ? this : nullptr;
}

void TorchReplica::on_bucket_read(std::function<void(int)> read) {
  impl_->read_ = std::move(read);
}

void TorchReplica::about_to_read(const torch::nn::Module& layer) {
  if (!impl_->read_) return;
  for (const at::Tensor& tensor : layer.parameters()) {
    const auto found = std::ranges::find(impl_->trained_, tensor.data_ptr(), &Parameter::address);
    if (found == impl_->trained_.end()) continue;
    // Bucket 0 is that of the last layers.
    if (impl_->progress_) impl_->progress_(kForwardShare * (1 - impl_->bytes_up_to(found->place.bucket)));
    impl_->read_(found->place.bucket);
  }
}

void TorchReplica::on_progress(std::function<void(double)> progress) {
  impl_->progress_ = std::move(progress);
}

int TorchReplica::num_trained() const {
  return static_cast<int>(impl_->trained_.size());
}
bool TorchReplica::used(int parameter) const {
  return impl_->there_[static_cast<std::size_t>(parameter)];
}

void TorchReplica::end_backward() {
  STRETTO_CHECK(impl_->attached_ != nullptr, "no gradient memory attached");
  impl_->check_unchanged();
  if (impl_->passed_twice_) {
    throw UsageError(
        "a second backward pass in one step, after gradients of the first were handed over; "
        "say before all passes but the last that more come: accumulate(true)");
  }
  while (impl_->next_bucket_ < static_cast<int>(impl_->buckets_.size())) impl_->hand_over(impl_->next_bucket_++);
  if (!impl_->gradient_ready_) return;
  for (std::size_t i = 0; i < impl_->trained_.size(); ++i) {
    if (impl_->there_[i]) impl_->hand_over_gradient(i);
  }
}

std::optional<std::string> TorchReplica::find_non_finite(int bucket) const {
  const auto memory = impl_->attached_->memory[static_cast<std::size_t>(bucket)];
  const DataType type = impl_->buckets_[static_cast<std::size_t>(bucket)].type;
  const std::int64_t at = first_non_finite(type, memory);
  if (at < 0) return std::nullopt;
  const auto b = static_cast<std::size_t>(bucket);
  for (std::size_t i = impl_->first_in_bucket_[b]; i < impl_->first_in_bucket_[b + 1]; ++i) {
    const Parameter& parameter = impl_->trained_[i];
    const auto first = static_cast<std::int64_t>(parameter.place.offset);
    if (at >= first + parameter.tensor.numel()) continue;
    const double value = impl_->attached_->tensors[i].view({-1})[at - first].item<double>();
    return text(parameter.name, " (element ", at - first, " is ",
                std::isnan(value) ? "nan"
                : value > 0       ? "inf"
                                  : "-inf",
                ")");
  }
  STRETTO_CHECK(false, "bucket ", bucket, " has no element ", at);
  return std::nullopt;
}

void TorchReplica::step(ConstMemory sum, std::span<const double> divisors, std::span<const std::int64_t> uses) {
  for (std::size_t b = 0; b < sum.size(); ++b)
    divide_or_clear(impl_->buckets_[b].type, impl_->own_set_.memory[b], sum[b], divisors[b]);
  impl_->point_at(impl_->own_set_);
  for (std::size_t i = 0; i < impl_->trained_.size(); ++i) {
    const auto b = static_cast<std::size_t>(impl_->trained_[i].place.bucket);
    impl_->there_[i] = !sum[b].empty() && (uses.empty() || uses[i] != 0);
  }
  step();
}

// An optimizer leaves a parameter alone that has no gradient.
void TorchReplica::step() {
  impl_->check_unchanged();
  for (std::size_t i = 0; i < impl_->trained_.size(); ++i) {
    if (!impl_->there_[i]) impl_->trained_[i].tensor.mutable_grad() = at::Tensor();
  }
  if (impl_->clip_norm_ > 0) impl_->clip();
  if (impl_->before_step_) impl_->before_step_();
  impl_->optimizer_->step();
}

// Over the flat memory, which is zero where there is no gradient.
void TorchReplica::Impl::clip() {
  double squares = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) squares += sum_of_squares(buckets_[b].type, attached_->memory[b]);
  const double factor = clip_norm_ / (std::sqrt(squares) + 1e-6);  // as in PyTorch
  if (!(factor < 1)) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    scale(buckets_[b].type, attached_->memory[b], attached_->memory[b], factor);
  }
}

void TorchReplica::accumulate(bool more) {
  impl_->accumulating_ = more;
}
bool TorchReplica::gradients_changed() const {
  return impl_->changed_;
}

void TorchReplica::on_step(std::function<void()> before) {
  impl_->before_step_ = std::move(before);
}

void TorchReplica::set_lr_factor(double factor) {
  impl_->check_unchanged();
  auto& groups = impl_->optimizer_->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(impl_->initial_lr_[i] * factor);
}

std::span<std::byte> TorchReplica::parameters(int bucket) {
  return memory_of(impl_->flat_[static_cast<std::size_t>(bucket)]);
}

}  // namespace stretto
