#include "python/binding/py_replica.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <tuple>

#include "python/binding/interpreter.h"
#include "stretto/base/error.h"
#include "stretto/base/half.h"
#include "stretto/train/replica/flat_math.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

/// A tensor's memory as Python says it: the type of an element, the address, the bytes.
using Piece = std::tuple<int, std::uintptr_t, std::size_t>;

std::span<std::byte> span_of(const Piece& piece) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): Python says addresses as numbers
  return {reinterpret_cast<std::byte*>(std::get<1>(piece)), std::get<2>(piece)};
}

std::vector<Replica::Buffer> buffers_of(const std::vector<Piece>& pieces) {
  std::vector<Replica::Buffer> buffers;
  for (const Piece& piece : pieces) buffers.push_back({static_cast<DataType>(std::get<0>(piece)), span_of(piece)});
  return buffers;
}

double number_at(DataType type, std::span<const std::byte> memory, std::size_t at) {
  const auto read = [&](auto number) {
    std::memcpy(&number, memory.data() + at * sizeof number, sizeof number);
    return number;
  };
  switch (type) {
    case DataType::float64: return read(double{});
    case DataType::bfloat16: return static_cast<double>(to_float(read(BFloat16{})));
    case DataType::float16: return static_cast<double>(to_float(read(Float16{})));
    default: return static_cast<double>(read(float{}));
  }
}

std::byte* zeros(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

}  // namespace

PyReplica::Block::Block(std::uint64_t bytes) : memory_(zeros(bytes), Free{bytes}) {}

void PyReplica::Block::Free::operator()(std::byte* memory) const {
  ::munmap(memory, bytes);
}

constexpr const char* kNoCheckpoints = "checkpoints of Python are the state_dict() of model and optimizer";

// As Torch's own memory: kernels of matrices add up in another order where memory begins elsewhere, and a step would
// have other bits than that of the plain optimizer.
constexpr std::uint64_t kAlignment = 64;

PyReplica::PyReplica(PyModel model, ReplicaObject calls)
    : model_(std::move(model)),
      plan_(plan_buckets(model_.parameters, model_.bucket_bytes, /*by_layer=*/false, kAlignment)),
      calls_(calls) {
  if (plan_.buckets.empty()) throw UsageError("the optimizer holds no parameter that requires a gradient");
  for (std::size_t i = 0; i < plan_.placements.size(); ++i) {
    if (plan_.placements[i].bucket >= 0) trained_.push_back(i);
  }
  std::ranges::sort(trained_, {}, [this](std::size_t i) {
    return std::pair(plan_.placements[i].bucket, plan_.placements[i].offset);
  });
  for (const BucketSpec& bucket : plan_.buckets) {
    const DataType gradients = model_.wide_gradients ? wide_type(bucket.type) : bucket.type;
    gradient_buckets_.push_back({gradients, bucket.count});
    flat_.emplace_back(bucket.count * size_of(bucket.type));
    own_.emplace_back(bucket.count * size_of(gradients));
    own_spans_.push_back(own_.back().span());
  }
  used_.assign(trained_.size(), 1);
}

std::span<std::byte> PyReplica::set(int number, int bucket) const {
  return sets_.at(static_cast<std::size_t>(number)).at(static_cast<std::size_t>(bucket));
}

void PyReplica::forget_flat() const {
  for (const Block& block : flat_) (void)::madvise(block.span().data(), block.span().size(), MADV_DONTNEED);
}

void PyReplica::set_to_zero(const Set& memory) const {
  if (model_.staged) return;  // all of it is copied to
  for (const auto& bytes : memory) std::memset(bytes.data(), 0, bytes.size());
}

void PyReplica::clear() {
  set_to_zero(model_.gradients_stay ? own_spans_ : attached());
  if (!model_.gradients_stay) call_attach(attached_);
}

void PyReplica::call_attach(int set) const {
  calls_.ask("attach", set);
}

void PyReplica::attach(int set, Memory memory) {
  const auto number = static_cast<std::size_t>(set);
  if (sets_.size() <= number) sets_.resize(number + 1);
  const auto same = [](std::span<std::byte> a, std::span<std::byte> b) { return a.data() == b.data(); };
  const bool known = std::ranges::equal(sets_[number], memory, same);
  if (!known) {
    if (!sets_[number].empty()) calls_.ask("forget", set);
    sets_[number].assign(memory.begin(), memory.end());
    for (const auto& bytes : memory) std::memset(bytes.data(), 0, bytes.size());  // also between the parameters
  }
  attached_ = set;
  attached_since_ = true;
  if (keep_gradients_) return;
  set_to_zero(model_.gradients_stay ? own_spans_ : sets_[number]);
  if (!model_.gradients_stay || !known) call_attach(set);
}

void PyReplica::attach_own() {
  attached_ = kOwn;
  if (keep_gradients_) return;
  set_to_zero(own_spans_);
  call_attach(kOwn);
}

void PyReplica::detach() {
  calls_.ask("detach");
  attached_ = kOwn;
  sets_.clear();
}

void PyReplica::hand_over() {
  const int bucket = next_bucket_++;
  const auto b = static_cast<std::size_t>(bucket);
  if (model_.gradients_stay && attached_ != kOwn) {
    std::memcpy(attached()[b].data(), own_spans_[b].data(), own_spans_[b].size());
  }
  if (ready_) ready_(bucket);
}

void PyReplica::end_backward() {
  finite_ = calls_.ask<bool>("collect", attached_);
  while (next_bucket_ < static_cast<int>(gradient_buckets_.size())) {
    if (model_.staged && ready_) calls_.ask("arrived", next_bucket_);
    hand_over();
  }
  next_bucket_ = 0;
}

std::optional<std::string> PyReplica::find_non_finite(int bucket) const {
  if (finite_) return std::nullopt;
  const auto b = static_cast<std::size_t>(bucket);
  const DataType type = gradient_buckets_[b].type;
  const std::int64_t at = first_non_finite(type, attached()[b]);
  if (at < 0) return std::nullopt;
  for (const std::size_t i : trained_) {
    const ParameterSpec& parameter = model_.parameters[i];
    const Placement& place = plan_.placements[i];
    const auto element = static_cast<std::uint64_t>(at);
    if (place.bucket != bucket || element < place.offset || element >= place.offset + parameter.count) continue;
    const double value = number_at(type, attached()[b], static_cast<std::size_t>(at));
    const char* what = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    return text(parameter.name, " (element ", element - place.offset, " is ", what, ")");
  }
  STRETTO_CHECK(false, "bucket ", bucket, " has no element ", at);
  return std::nullopt;
}

void PyReplica::step(ConstMemory sum, std::span<const double> divisors, std::span<const std::int64_t> uses) {
  const bool there = attached_returns_ && attached_since_ && !model_.gradients_stay && !model_.staged;
  const Set& averages = there ? attached() : own_spans_;
  for (std::size_t b = 0; b < sum.size() && !model_.staged; ++b) {
    divide_or_clear(gradient_buckets_[b].type, averages[b], sum[b], divisors[b]);
  }
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const bool summed = !sum[static_cast<std::size_t>(plan_.placements[trained_[i]].bucket)].empty();
    used_[i] = summed && (uses.empty() || uses[i] != 0);
  }
  with_python([&] {
    if (model_.staged) {
      std::vector<std::uintptr_t> addresses;
      for (const auto& bytes : sum) addresses.push_back(reinterpret_cast<std::uintptr_t>(bytes.data()));
      calls_.call("take", addresses, std::vector<double>(divisors.begin(), divisors.end()), attached_returns_);
    }
    calls_.call("step", there ? attached_ : kOwn);
  });
}

void PyReplica::attached_returns(bool yes) {
  attached_returns_ = yes;
  attached_since_ = false;
}

void PyReplica::step() {
  calls_.ask("step", attached_);
}

OptimizerOptions PyReplica::optimizer_options() const {
  const auto [lr, hash] = calls_.ask<std::pair<double, std::uint64_t>>("options");
  return OptimizerOptions{.lr = lr, .hash = hash};
}

std::optional<SgdRule> PyReplica::sgd_rule() const {
  const auto rule = calls_.ask<std::optional<std::tuple<double, double, double>>>("sgd_rule");
  if (!rule) return std::nullopt;
  const auto [lr, momentum, weight_decay] = *rule;
  return SgdRule{.lr = lr, .momentum = momentum, .weight_decay = weight_decay};
}

void PyReplica::set_lr_factor(double) {
  throw UsageError("lr_schedule is not for Python: expected a scheduler of torch.optim.lr_scheduler");
}

std::span<std::byte> PyReplica::parameters(int bucket) {
  if (model_.staged && bucket == 0) calls_.ask("show_weights");
  return flat(bucket);
}

std::vector<std::span<std::byte>> PyReplica::weights() {
  calls_.ask("show_weights");
  std::vector<std::span<std::byte>> all;
  for (const Block& block : flat_) all.push_back(block.span());
  const auto others = calls_.ask<std::vector<Piece>>("others");
  for (const Piece& piece : others) all.push_back(span_of(piece));
  return all;
}

std::vector<PyReplica::Buffer> PyReplica::floating_buffers() {
  return buffers_of(calls_.ask<std::vector<Piece>>("floating_buffers"));
}

std::vector<std::pair<std::size_t, std::size_t>> PyReplica::moments() const {
  using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  return calls_.ask<Pairs>("moments");
}

std::vector<std::span<std::int64_t>> PyReplica::counts() {
  const auto pieces = calls_.ask<std::vector<Piece>>("counts");
  std::vector<std::span<std::int64_t>> counts;
  for (const Piece& piece : pieces) {
    const auto bytes = span_of(piece);
    counts.emplace_back(reinterpret_cast<std::int64_t*>(bytes.data()), bytes.size() / sizeof(std::int64_t));
  }
  return counts;
}

std::optional<std::string> PyReplica::describe_buffers() {
  return calls_.ask<std::optional<std::string>>("describe_buffers");
}

void PyReplica::share_buffers(const std::vector<std::string>& of_ranks) {
  calls_.ask("share_buffers", of_ranks);
}

std::string PyReplica::optimizer_state() {
  return calls_.ask_bytes("state");
}

void PyReplica::set_optimizer_state(const std::string& state) {
  calls_.give_bytes("set_state", state);
}

std::vector<PyReplica::Buffer> PyReplica::optimizer_arrays() {
  return buffers_of(calls_.ask<std::vector<Piece>>("state_arrays"));
}

ReplicaChecksum PyReplica::checksum() {
  calls_.ask("show_weights");
  Hash64 parameters;
  for (const Block& block : flat_) parameters.add(block.span());
  Hash64 optimizer;
  with_python([&] {
    for (const nb::handle item : calls_.call("state_content")) {
      if (nb::isinstance<nb::bytes>(item)) {
        const auto bytes = nb::cast<nb::bytes>(item);
        optimizer.add(std::string_view(bytes.c_str(), bytes.size()));
      } else {
        optimizer.add(span_of(nb::cast<Piece>(item)));
      }
    }
  });
  return {parameters.value(), optimizer.value()};
}

std::string PyReplica::save() {
  throw UsageError(kNoCheckpoints);
}

void PyReplica::load(const std::string&) {
  throw UsageError(kNoCheckpoints);
}

}  // namespace stretto::python
