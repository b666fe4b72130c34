#include "stretto/train/gradient_averaging.h"

#include "stretto/train/flat_math.h"

namespace stretto {
namespace {

PartialOptions partial_options(const RecipeOptions& options, Policy policy, Delivery delivery) {
  return {.policy = policy,
          .full_every = options.full_every,
          .max_lag = options.max_lag,
          .delivery = delivery,
          .deposits = DepositKind::taken,
          .order = policy.kind == Policy::Kind::full ? SumOrder::fixed : options.order,  // sync repeats to the bit
          .seed = options.seed,
          .batches_before = options.batches_before,
          .seats = options.seats};
}

double divisor(const RoundHeader& header, Normalize normalize) {
  switch (normalize) {
    case Normalize::ranks: return header.ranks();
    case Normalize::contributors: return header.contributors();
    case Normalize::samples: return static_cast<double>(header.samples);
  }
  return 1;
}

}  // namespace

GradientAveraging::GradientAveraging(const RecipeContext& context, Policy policy, Delivery delivery)
    : context_(context),
      collective_(context.engine, context.replica.buckets(), partial_options(context.options, policy, delivery)) {}

void GradientAveraging::begin_step(std::uint64_t samples, Duration waited) {
  samples_ = samples;
  waited_ = waited;
  non_finite_.reset();
  current_ = &collective_.acquire();
  std::vector<std::span<std::byte>> memory;
  for (int b = 0; b < current_->num_buckets(); ++b) memory.push_back(current_->bucket(b));
  context_.replica.attach(current_->index(), memory);
}

bool GradientAveraging::check_bucket(int bucket) {
  if (!non_finite_) non_finite_ = context_.replica.find_non_finite(bucket);
  if (non_finite_) return false;
  if (context_.options.normalize == Normalize::samples) {
    const auto memory = current_->bucket(bucket);
    scale(context_.replica.buckets()[static_cast<std::size_t>(bucket)].type, memory, memory,
          static_cast<double>(samples_));
  }
  return true;
}

std::optional<std::string> GradientAveraging::end_backward() {
  context_.replica.end_backward();
  for (int b = 0; b < current_->num_buckets(); ++b) {
    if (!check_bucket(b)) break;
  }
  return non_finite_;
}

void GradientAveraging::deposit(Duration computed) {
  collective_.deposit(*current_, {.samples = samples_, .computed = computed, .waited = waited_});
}

Result<int> GradientAveraging::exchange(EngineDriver& driver, TimePoint deadline) {
  return collective_.exchange(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

Result<int> GradientAveraging::finish(EngineDriver& driver, TimePoint deadline) {
  return collective_.finish(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

void GradientAveraging::apply(EngineDriver&, const RoundResult& result) {
  if (!result.empty()) move(result);
  context_.listener.after(result);
}

void GradientAveraging::move(const RoundResult& result) {
  context_.listener.before(result);
  context_.replica.step(result.buckets, divisor(*result.header, context_.options.normalize));
}

}  // namespace stretto
