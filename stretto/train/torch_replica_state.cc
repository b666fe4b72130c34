
#include <ATen/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <typeinfo>

#include "stretto/base/error.h"
#include "stretto/train/flat_math.h"
#include "stretto/train/torch_replica.h"

namespace stretto {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// What `part` (options or state of some optimizer) writes about itself, to be read by key.
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
  Hash64 weights;
  for (int b = 0; b < static_cast<int>(buckets().size()); ++b) weights.add(parameters(b));
  Hash64 moments;
  const auto& state = optimizer().state();
  for (const at::Tensor& parameter : parameters_in_order(optimizer())) {
    const auto found = state.find(parameter.unsafeGetTensorImpl());
    if (found == state.end()) continue;
    InputArchive archive = written_by(*found->second);
    add_to(moments, archive);
  }
  return {weights.value(), moments.value()};
}

std::string TorchReplica::optimizer_description() const {
  std::string out = c10::demangle(typeid(optimizer()).name()) + "\n";
  for (const auto& group : optimizer().param_groups()) {
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

std::string TorchReplica::library() const {
  return text("torch ", TORCH_VERSION);
}

void TorchReplica::save(const std::string& path) {
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
    archive.save_to(path);
  } catch (const c10::Error& error) {
    throw Failure({Errc::io, text("cannot write ", path, ": ", error.what_without_backtrace())});
  }
}

void TorchReplica::load(const std::string& path) {
  const auto unusable = [&](const std::string& why) { return Failure({Errc::bad_input, text(path, ": ", why)}); };
  try {
    InputArchive archive;
    archive.load_from(path);
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

}  // namespace stretto
