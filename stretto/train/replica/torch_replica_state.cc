#include <ATen/Parallel.h>
#include <ATen/Tensor.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>
#include <torch/version.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <sstream>
#include <typeinfo>

#include "stretto/base/error.h"
#include "stretto/train/replica/arithmetic.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/replica/torch_replica_impl.h"

namespace stretto {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// The archive of `part` (options or state of some optimizer), to be read by key.
template <class Part>
InputArchive written_by(const Part& part) {
  OutputArchive out;
  part.serialize(out);
  std::stringstream bytes;
  out.save_to(bytes);
  InputArchive in;
  in.load_from(bytes);
  return in;
}

std::vector<std::string> sorted_keys(InputArchive& archive) {
  std::vector<std::string> keys = archive.keys();
  std::sort(keys.begin(), keys.end());
  return keys;
}

void add_to(Hash64& hash, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  hash.add(text(flat.scalar_type(), flat.sizes()));
  hash.add({static_cast<const std::byte*>(flat.data_ptr()), flat.nbytes()});
}

void add_to(Hash64& hash, InputArchive& archive) {
  for (const std::string& key : sorted_keys(archive)) {
    hash.add(key);
    at::Tensor tensor;
    if (archive.try_read(key, tensor) || archive.try_read(key, tensor, /*is_buffer=*/true)) {
      if (tensor.defined()) add_to(hash, tensor);
      continue;
    }
    InputArchive nested;
    if (archive.try_read(key, nested)) {
      add_to(hash, nested);
      continue;
    }
    c10::IValue value;
    if (archive.try_read(key, value)) hash.add(text(value));
  }
}

std::uint64_t bits(double number) {
  return std::bit_cast<std::uint64_t>(number);
}

// Read in every round, so that they do not go through an archive. Of other optimizers than LibTorch's: the rate alone.
void add_to(Hash64& hash, const torch::optim::OptimizerOptions& group) {
  hash.add(bits(group.get_lr()));
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&group)) {
    for (const double x : {sgd->momentum(), sgd->dampening(), sgd->weight_decay()}) hash.add(bits(x));
    hash.add(sgd->nesterov());
  } else if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&group)) {
    const auto [one, two] = adam->betas();
    for (const double x : {one, two, adam->eps(), adam->weight_decay()}) hash.add(bits(x));
    hash.add(adam->amsgrad());
  } else if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&group)) {
    const auto [one, two] = adamw->betas();
    for (const double x : {one, two, adamw->eps(), adamw->weight_decay()}) hash.add(bits(x));
    hash.add(adamw->amsgrad());
  } else if (const auto* rms = dynamic_cast<const torch::optim::RMSpropOptions*>(&group)) {
    for (const double x : {rms->alpha(), rms->eps(), rms->weight_decay(), rms->momentum()}) hash.add(bits(x));
    hash.add(rms->centered());
  } else if (const auto* adagrad = dynamic_cast<const torch::optim::AdagradOptions*>(&group)) {
    for (const double x : {adagrad->lr_decay(), adagrad->weight_decay(), adagrad->eps()}) hash.add(bits(x));
  }
}

/// What is averaged over past gradients; undefined tensors among them. Of other optimizers than LibTorch's: nothing.
std::vector<at::Tensor> moments_in(const torch::optim::OptimizerParamState& state) {
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDParamState*>(&state)) return {sgd->momentum_buffer()};
  if (const auto* adam = dynamic_cast<const torch::optim::AdamParamState*>(&state)) {
    return {adam->exp_avg(), adam->exp_avg_sq(), adam->max_exp_avg_sq()};
  }
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWParamState*>(&state)) {
    return {adamw->exp_avg(), adamw->exp_avg_sq(), adamw->max_exp_avg_sq()};
  }
  if (const auto* rms = dynamic_cast<const torch::optim::RMSpropParamState*>(&state)) {
    return {rms->square_avg(), rms->momentum_buffer(), rms->grad_avg()};
  }
  if (const auto* adagrad = dynamic_cast<const torch::optim::AdagradParamState*>(&state)) return {adagrad->sum()};
  return {};
}

std::vector<at::Tensor> parameters_in_order(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return parameters;
}

std::string weights_key(std::size_t i) {
  return text("weights/", i);
}

at::Tensor as_bytes_tensor(std::size_t size) {
  return at::empty({static_cast<std::int64_t>(size)}, at::TensorOptions().dtype(at::kByte));
}

}  // namespace

ReplicaChecksum TorchReplica::checksum() {
  Hash64 moments;
  const auto& state = optimizer().state();
  for (const at::Tensor& parameter : parameters_in_order(optimizer())) {
    const auto found = state.find(parameter.unsafeGetTensorImpl());
    if (found == state.end()) continue;
    InputArchive archive = written_by(*found->second);
    add_to(moments, archive);
  }
  return {hash_of_parameters(), moments.value()};
}

std::string TorchReplica::optimizer_description() const {
  return impl_->optimizer_description_;
}

std::string TorchReplica::Impl::describe_optimizer() const {
  const torch::optim::Optimizer& wrapped = *optimizer_;
  std::string out = c10::demangle(typeid(wrapped).name()) + "\n";
  for (const auto& group : wrapped.param_groups()) {
    InputArchive options = written_by(group.options());
    out += text("group of ", group.params().size());
    for (const std::string& key : sorted_keys(options)) {
      c10::IValue value;
      if (options.try_read(key, value)) out += text(" ", key, "=", value);
    }
    out += "\n";
  }
  return out;
}

OptimizerOptions TorchReplica::optimizer_options() const {
  Hash64 hash;
  const auto& groups = optimizer().param_groups();
  for (const auto& group : groups) add_to(hash, group.options());
  return {groups.front().options().get_lr(), hash.value()};
}

std::optional<SgdRule> TorchReplica::sgd_rule() const {
  std::optional<SgdRule> rule;
  for (const auto& group : optimizer().param_groups()) {
    const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&group.options());
    if (sgd == nullptr || sgd->nesterov() || sgd->dampening() != 0) return std::nullopt;
    const SgdRule here{.lr = sgd->lr(), .momentum = sgd->momentum(), .weight_decay = sgd->weight_decay()};
    if (rule && *rule != here) return std::nullopt;
    rule = here;
  }
  return rule;
}

std::string TorchReplica::optimizer_state() {
  if (optimizer().state().empty()) return {};
  OutputArchive archive;
  optimizer().save(archive);
  std::ostringstream bytes;
  archive.save_to(bytes);
  return std::move(bytes).str();
}

void TorchReplica::set_optimizer_state(const std::string& state) {
  if (state.empty()) return optimizer().state().clear();
  InputArchive archive;
  std::istringstream bytes(state);
  archive.load_from(bytes);
  optimizer().load(archive);
}

std::vector<TorchReplica::Buffer> TorchReplica::optimizer_arrays() {
  std::vector<Buffer> arrays;
  const auto& state = optimizer().state();
  for (const at::Tensor& parameter : parameters_in_order(optimizer())) {
    const auto found = state.find(parameter.unsafeGetTensorImpl());
    if (found == state.end()) continue;
    for (const at::Tensor& moment : moments_in(*found->second)) {
      if (!moment.defined() || !moment.is_contiguous()) continue;
      if (const auto type = data_type(moment)) {
        arrays.push_back({*type, {static_cast<std::byte*>(moment.data_ptr()), moment.nbytes()}});
      }
    }
  }
  return arrays;
}

std::string TorchReplica::library() const {
  return text("torch ", TORCH_VERSION);
}

LibraryCode TorchReplica::library_code() const {
  return {.name = torch_code(at::get_cpu_capability()), .threads = at::get_num_threads()};
}

std::string TorchReplica::save() {
  try {
    OutputArchive archive;
    const auto memory = weights();
    for (std::size_t i = 0; i < memory.size(); ++i) {
      at::Tensor bytes = as_bytes_tensor(memory[i].size());
      std::memcpy(bytes.data_ptr(), memory[i].data(), memory[i].size());
      archive.write(weights_key(i), bytes, /*is_buffer=*/true);
    }
    OutputArchive moments(archive.compilation_unit());
    optimizer().save(moments);
    archive.write("optimizer", moments);
    std::string bytes;  // never straight to a file: LibTorch's writer ends the process where the disk is full
    archive.save_to([&bytes](const void* piece, std::size_t size) {
      bytes.append(static_cast<const char*>(piece), size);
      return size;
    });
    return bytes;
  } catch (const c10::Error& error) {
    throw Failure({Errc::io, text("cannot save the replica: ", error.what_without_backtrace())});
  }
}

void TorchReplica::load(const std::string& saved) {
  const auto unusable = [](const std::string& why) {
    return Failure({Errc::bad_input, "the saved state of a replica: " + why});
  };
  try {
    InputArchive archive;
    archive.load_from(saved.data(), saved.size());
    const auto memory = weights();
    for (std::size_t i = 0; i < memory.size(); ++i) {
      at::Tensor bytes;
      archive.read(weights_key(i), bytes, /*is_buffer=*/true);
      if (bytes.nbytes() != memory[i].size()) {
        throw unusable(text("holds ", bytes.nbytes(), " bytes where this model has ", memory[i].size()));
      }
      std::memcpy(memory[i].data(), bytes.data_ptr(), memory[i].size());
    }
    InputArchive moments;
    archive.read("optimizer", moments);
    optimizer().load(moments);
  } catch (const c10::Error& error) {
    throw unusable(error.what_without_backtrace());
  }
}

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

std::vector<std::span<std::byte>> TorchReplica::weights() {
  std::vector<std::span<std::byte>> all;
  for (const at::Tensor& flat : impl_->flat_) all.push_back(memory_of(flat));
  for (const at::Tensor& tensor : impl_->others_) all.push_back(memory_of(tensor));
  return all;
}

std::vector<TorchReplica::Buffer> TorchReplica::floating_buffers() {
  std::vector<Buffer> buffers;
  for (const at::Tensor& buffer : impl_->buffers_) buffers.push_back({*data_type(buffer), memory_of(buffer)});
  return buffers;
}

std::vector<std::pair<std::size_t, std::size_t>> TorchReplica::moments() const {
  return impl_->moments_;
}

std::vector<std::span<std::int64_t>> TorchReplica::counts() {
  std::vector<std::span<std::int64_t>> counts;
  for (const at::Tensor& count : impl_->counts_) {
    counts.emplace_back(count.data_ptr<std::int64_t>(), static_cast<std::size_t>(count.numel()));
  }
  return counts;
}

}  // namespace stretto
