#include "stretto/papers/servers/parameter_server.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/description.h"
#include "stretto/base/error.h"
#include "stretto/papers/servers/server_node.h"

namespace stretto {
namespace {

const ServerOptions& checked(const ServerOptions& options, const std::vector<BucketSpec>& buckets, int ranks) {
  check_server_options(options, ranks);
  if (buckets.empty()) throw UsageError("a parameter server needs at least one bucket");
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].count == 0) throw UsageError(text("bucket ", i, " is empty: give it at least one element"));
  }
  return options;
}

}  // namespace

class ParameterServer::Impl {
 public:
  Impl(Engine& engine, std::vector<BucketSpec> buckets, const ServerOptions& options, ServerUpdate update)
      : node(engine, std::move(buckets), options, std::move(update)), pushed(node.buckets().size()) {}
  ~Impl() {
    const Engine::Pause pause(node.engine());
    node.withdraw();
  }

  std::uint64_t bytes_of(int bucket) const {
    const BucketSpec& spec = node.buckets()[static_cast<std::size_t>(bucket)];
    return spec.count * size_of(spec.type);
  }
  void require(int bucket, std::size_t bytes, const char* what) const {
    if (begun == 0) throw UsageError("parameter server: call begin() first, with the values that all ranks begin with");
    if (bytes == bytes_of(bucket)) return;
    throw UsageError(
        text("parameter server: ", what, " of bucket ", bucket, " has ", bytes, " bytes; expected ", bytes_of(bucket)));
  }
  int num_buckets() const { return static_cast<int>(node.buckets().size()); }
  bool ready(int bucket) {
    const auto& wish = node.wish(bucket);
    const std::uint64_t wanted = pushed[static_cast<std::size_t>(bucket)];
    return wish.answered.load(std::memory_order_acquire) >= wanted &&
           wish.left.load(std::memory_order_acquire) >= wanted;
  }
  bool ready() {
    for (int b = 0; b < num_buckets(); ++b) {
      if (!ready(b)) return false;
    }
    return true;
  }
  /// Whether the phase may be ended here.
  bool may_end() { return ready() || defect(Defect::round_without_acknowledgement); }
  /// Whether the phase begun last has been ended here.
  bool ending() const { return ended == begun; }
  bool over() const { return node.phases_over() == begun; }
  Result<void> wait(FunctionRef<bool()> there, Driver& driver, TimePoint deadline) {
    const bool here = driver.wait([&] { return node.failure().failed() || there(); }, deadline);
    if (auto why = node.failure().error()) return *std::move(why);
    if (!here) return late(driver, "values have not come");
    return {};
  }
  void end(std::span<const std::span<std::byte>> values) {
    if (begun > 0 && ending()) return;
    if (!may_end()) throw UsageError("parameter server: settle() before the values of the last push are there");
    for (int b = 0; b < num_buckets(); ++b) {
      require(b, values[static_cast<std::size_t>(b)].size(), "the last value");
      node.wish(b).value = values[static_cast<std::size_t>(b)].data();
    }
    node.set_ended(++ended);
    node.engine().doorbell().ring();
  }
  void step(int bucket, std::byte* gradient, std::span<std::byte> value, bool passed) {
    require(bucket, value.size(), "the value");
    if (ending() || !ready(bucket)) {
      throw UsageError(text("parameter server: bucket ", bucket, " is pushed ",
                            ending() ? "after settle()" : "before the value of the last push is there"));
    }
    auto& wish = node.wish(bucket);
    wish.gradient = gradient;
    wish.passed = passed;
    wish.value = value.data();
    wish.wanted.store(++pushed[static_cast<std::size_t>(bucket)], std::memory_order_release);
    node.engine().doorbell().ring();
  }
  Error late(Driver& driver, const char* what) {
    return {Errc::timeout,
            text(words_of(node.words()), ": ", what, "; ", node.who_is_missing(driver, std::chrono::milliseconds(200))),
            -1};
  }

  ServerNode node;
  std::vector<std::uint64_t> pushed;  // by bucket: steps
  std::uint64_t begun = 0;            // phases
  std::uint64_t ended = 0;            // of them, by this rank
};

ParameterServer::ParameterServer(Engine& engine, std::vector<BucketSpec> buckets, const ServerOptions& options,
                                 ServerUpdate update) {
  checked(options, buckets, engine.size());
  const Engine::Pause pause(engine);
  impl_ = std::make_unique<Impl>(engine, std::move(buckets), options, std::move(update));
}

ParameterServer::~ParameterServer() = default;

void ParameterServer::begin(std::span<const std::span<const std::byte>> values) {
  if (begun()) throw UsageError("parameter server: begin() has been called before");
  impl_->begun = 1;
  for (int b = 0; b < impl_->num_buckets(); ++b) {
    impl_->require(b, values[static_cast<std::size_t>(b)].size(), "the first value");
  }
  for (const auto& served : impl_->node.served()) served->start(values[static_cast<std::size_t>(served->bucket())]);
  impl_->node.set_begun(1);
  impl_->node.engine().doorbell().ring();
}

bool ParameterServer::begun() const {
  return impl_->begun > 0;
}

void ParameterServer::go_on() {
  if (!begun() || !impl_->over()) throw UsageError("parameter server: go_on() before settle() has returned");
  impl_->node.set_begun(++impl_->begun);
  impl_->node.engine().doorbell().ring();
}

void ParameterServer::push(int bucket, std::span<std::byte> gradient, std::span<std::byte> value) {
  impl_->require(bucket, gradient.size(), "the gradient");
  impl_->step(bucket, gradient.data(), value, false);
}

void ParameterServer::pass(int bucket, std::span<std::byte> value) {
  impl_->step(bucket, nullptr, value, true);
}

Result<bool> ParameterServer::ready() const {
  if (auto why = failure()) return *std::move(why);
  return impl_->ready();
}

Result<bool> ParameterServer::ready(int bucket) const {
  if (auto why = failure()) return *std::move(why);
  return impl_->ready(bucket);
}

Result<void> ParameterServer::wait(Driver& driver, TimePoint deadline) {
  return impl_->wait([this] { return impl_->ready(); }, driver, deadline);
}

Result<void> ParameterServer::wait(int bucket, Driver& driver, TimePoint deadline) {
  return impl_->wait([this, bucket] { return impl_->ready(bucket); }, driver, deadline);
}

Result<bool> ParameterServer::try_settle(std::span<const std::span<std::byte>> values) {
  if (auto why = failure()) return *std::move(why);
  if (!impl_->ending() && !impl_->may_end()) return false;
  impl_->end(values);
  return impl_->over();
}

Result<void> ParameterServer::settle(Driver& driver, TimePoint deadline, std::span<const std::span<std::byte>> values) {
  if (auto why = failure()) return *std::move(why);
  impl_->end(values);
  const auto over = [this] { return impl_->node.failure().failed() || impl_->over(); };
  const bool ended = driver.wait(over, deadline);
  if (!impl_->over()) {
    if (auto why = failure()) return *std::move(why);
  }
  if (!ended) return impl_->late(driver, "other ranks still push");
  return {};
}

void ParameterServer::abort(Driver& driver, const Error& why) {
  impl_->node.failure().abort(driver, why);
}

std::optional<Error> ParameterServer::failure() const {
  return impl_->node.failure().error();
}

std::string ParameterServer::who_is_missing(Driver& driver, Duration timeout) {
  return text(words_of(impl_->node.words()), ": ", impl_->node.who_is_missing(driver, timeout));
}

bool ParameterServer::serves(int bucket) const {
  return impl_->node.mine(bucket);
}

std::uint64_t ParameterServer::steps() const {
  return impl_->pushed.front();
}

ServerCounts ParameterServer::counts() const {
  return impl_->node.counts();
}

std::uint64_t ParameterServer::memory_bytes() const {
  std::uint64_t bytes = 0;
  const auto ranks = static_cast<std::uint64_t>(impl_->node.engine().size());
  for (const auto& served : impl_->node.served()) {
    bytes += served->bytes() + ranks * impl_->bytes_of(served->bucket());
  }
  return bytes;
}

void ParameterServer::observe(ServerObserver& observer) {
  impl_->node.observe(observer);
}

}  // namespace stretto
