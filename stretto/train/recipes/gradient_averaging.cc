#include "stretto/train/recipes/gradient_averaging.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/recipes/round_notes.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

/// Whoever deposits in a round of all ranks has read the results of those before.
constexpr int kResultsOfFullRounds = 2;

/// A bucket's notes follow it where its rounds are its own; else those of all follow the last.
int stride_of(const RecipeOptions& options) {
  return has_bucket_rounds(options) && options.notes ? 2 : 1;
}

PartialOptions partial_options(const RecipeOptions& options, Policy policy, Delivery delivery) {
  const bool full = policy.kind == Policy::Kind::full;
  return {.policy = policy,
          .full_every = options.full_every,
          .max_lag = full ? std::min(options.max_lag, kResultsOfFullRounds) : options.max_lag,
          .delivery = delivery,
          .order = full ? SumOrder::fixed : options.order,  // sync repeats to the bit
          .seed = options.seed,
          .batches_before = options.batches_before,
          .seats = options.seats,
          .buckets_per_round = has_bucket_rounds(options) ? stride_of(options) : 0,
          .members_change = options.members_change,
          .rounds_before = options.rounds_before};
}

double divisor(const RoundHeader& header, Normalize normalize) {
  switch (normalize) {
    case Normalize::ranks: return header.ranks();
    case Normalize::contributors: return header.contributors();
    case Normalize::samples: return static_cast<double>(header.samples);
  }
  return 1;
}

std::vector<BucketSpec> buckets_of(const RecipeContext& context, const RoundNotes* notes) {
  std::vector<BucketSpec> buckets = context.replica.buckets();
  check_weights(context.options.normalize, buckets);
  if (notes == nullptr) return buckets;
  buckets.push_back(notes->bucket());
  if (stride_of(context.options) == 1) return buckets;
  std::vector<BucketSpec> noted;
  for (const BucketSpec& bucket : context.replica.buckets()) noted.insert(noted.end(), {bucket, notes->bucket()});
  return noted;
}

/// A hash of the weights with which a round begins, where ranks compare it.
std::optional<std::uint64_t> compared_weights(const RecipeContext& context, std::uint64_t round) {
  const bool equal = context.options.compares && context.options.delivery == Delivery::every;
  if (!equal || !RoundNotes::compares(round)) return std::nullopt;
  Hash64 hash;
  for (std::size_t b = 0; b < context.replica.parameter_buckets().size(); ++b) {
    hash.add(context.replica.parameters(static_cast<int>(b)));
  }
  return hash.value();
}

}  // namespace

bool has_bucket_rounds(const RecipeOptions& options) {
  return options.algorithm.word("rounds", "one") == "per-bucket";
}

std::unique_ptr<RoundNotes> make_round_notes(const RecipeContext& context) {
  if (!context.options.notes) return nullptr;
  const RecipeOptions& o = context.options;
  return std::make_unique<RoundNotes>(o.members_change ? o.place : context.engine.rank(),
                                      o.members_change ? o.places : context.engine.size(),
                                      context.replica.num_trained(), o.max_lag);
}

void move_by_average(const RecipeContext& context, RoundNotes* notes, const RoundResult& result,
                     std::span<const std::int64_t> noted) {
  if (result.empty()) {
    if (notes != nullptr) notes->applies(result.round, std::nullopt);
    return;
  }
  context.listener.before(result);
  std::span<const std::int64_t> uses;
  if (notes != nullptr) {
    if (const auto difference = notes->difference(noted)) throw Failure({Errc::diverged, *difference, -1});
    context.listener.counted(notes->counts(noted), result.header->ranks());
    notes->applies(result.round, context.replica.optimizer_options(), compared_weights(context, result.round));
    uses = notes->uses(noted);
  }
  const auto gradients = result.buckets.first(context.replica.buckets().size());
  thread_local std::vector<double> divisors;  // its memory is kept: a step allocates nothing
  divisors.clear();
  for (std::size_t b = 0; b < gradients.size(); ++b) {
    divisors.push_back(divisor(result.header_of(static_cast<int>(b)), context.options.normalize));
  }
  context.replica.step(gradients, divisors, uses);
}

GradientAveraging::GradientAveraging(const RecipeContext& context, Policy policy, Delivery delivery)
    : context_(context),
      num_buckets_(static_cast<int>(context.replica.buckets().size())),
      notes_(make_round_notes(context)),
      stride_(stride_of(context.options)),
      collective_(std::make_shared<PartialAllreduce>(context.engine, buckets_of(context, notes_.get()),
                                                     partial_options(context.options, policy, delivery))) {
  const bool full = policy.kind == Policy::Kind::full && !has_bucket_rounds(context.options);
  // By messages a deposit may still be on its way when the result of its round is there.
  context_.replica.attached_returns(full && collective_->on_boards());
}

GradientAveraging::~GradientAveraging() {
  context_.replica.attached_returns(false);
}

void GradientAveraging::begin_step(const DepositInfo& step) {
  step_ = &step;
  began_ = context_.engine.clock().now();
  non_finite_.reset();
  if (current_ == nullptr) current_ = &collective_->acquire();
  memory_.clear();
  for (int b = 0; b < num_buckets_; ++b) memory_.push_back(current_->bucket(b * stride_));
  context_.replica.attach(current_->index(), memory_);
}

bool GradientAveraging::check_bucket(int bucket) {
  if (!non_finite_) non_finite_ = context_.replica.find_non_finite(bucket);
  if (non_finite_) return false;
  if (context_.options.normalize == Normalize::samples) {
    const auto memory = current_->bucket(bucket * stride_);
    scale(context_.replica.buckets()[static_cast<std::size_t>(bucket)].type, memory, memory,
          static_cast<double>(step_->samples));
  }
  return true;
}

std::optional<std::string> GradientAveraging::end_backward() {
  context_.replica.end_backward();
  for (int b = 0; b < num_buckets_; ++b) {
    if (!check_bucket(b)) break;
  }
  write_notes();
  return non_finite_;
}

void GradientAveraging::write_notes() {
  if (!notes_) return;
  const LoopCounts counts = context_.listener.take_counts();
  for (int at = stride_ == 1 ? num_buckets_ : 1; at < collective_->num_buckets(); at += stride_) {
    notes_->write(current_->as<std::int64_t>(at), context_.replica, collective_->handed(), counts);
  }
}

void GradientAveraging::begin_deposit() {
  DepositInfo so_far = *step_;
  so_far.computed = context_.engine.clock().now() - began_;
  collective_->begin_deposit(*current_, so_far);
}

void GradientAveraging::deposit(const DepositInfo& step) {
  collective_->deposit(*std::exchange(current_, nullptr), step);
}

Result<int> GradientAveraging::advance(Driver& driver, TimePoint deadline) {
  return collective_->exchange(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

Result<int> GradientAveraging::finish(Driver& driver, TimePoint deadline) {
  return collective_->finish(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

Result<bool> GradientAveraging::drain(Driver& driver) {
  const auto progress = collective_->try_finish([this, &driver](const RoundResult& result) { apply(driver, result); });
  if (!progress) return progress.error();
  return *progress == PartialAllreduce::Progress::done;
}

std::string GradientAveraging::model_beside() const {
  return notes_ ? notes_->history() : std::string();
}

void GradientAveraging::take_over(const std::string& model_beside) {
  if (notes_) notes_->take_history(model_beside);
}

RoundResult GradientAveraging::gradients_of(const RoundResult& result) {
  sums_.clear();
  headers_.clear();
  noted_.assign(notes_->bucket().count, 0);
  for (int b = 0; b < num_buckets_; ++b) {
    sums_.push_back(result.buckets[2 * static_cast<std::size_t>(b)]);
    headers_.push_back(&result.header_of(2 * b));
    const auto own = result.as<std::int64_t>(2 * b + 1);
    if (b == 0) {
      std::ranges::copy(own, noted_.begin());
    } else {
      notes_->take_uses(noted_, context_.replica, b, own);
    }
  }
  RoundResult gradients = result;
  gradients.buckets = sums_;
  gradients.headers = headers_;
  return gradients;
}

void GradientAveraging::apply(Driver& driver, const RoundResult& of_all) {
  const RoundResult result = stride_ == 1 ? of_all : gradients_of(of_all);
  std::span<const std::int64_t> noted = noted_;
  if (stride_ == 1 && notes_ && !result.empty()) noted = result.as<std::int64_t>(num_buckets_);
  move_by_average(context_, notes_.get(), result, noted);
  moved(driver, result);
  context_.listener.after(result);
}

}  // namespace stretto
