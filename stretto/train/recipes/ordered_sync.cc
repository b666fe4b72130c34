#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/ordering/ordered_allreduce.h"
#include "stretto/train/ordering/model_collectives.h"
#include "stretto/train/recipes/gradient_averaging.h"
#include "stretto/train/recipes/ordered_gradients.h"
#include "stretto/train/recipes/round_notes.h"
#include "stretto/train/recipes/sync.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/replica/replica.h"

namespace stretto {
namespace {

constexpr const char* kNotes = "notes of the loop";

OrderingOptions with_memory(OrderingOptions options, std::span<const BucketSpec> buckets) {
  options.memory_bytes = Contribution::bytes_needed(buckets);
  return options;
}

/// The gradients, where other ranks see them, if they do.
std::unique_ptr<Contribution> gradients_in(std::span<std::byte> memory, std::span<const BucketSpec> buckets) {
  if (memory.empty()) return std::make_unique<Contribution>(buckets, 0);
  return std::make_unique<Contribution>(memory, buckets, 0);
}

/// The sums that all ranks read, if they can.
std::unique_ptr<Contribution> shared_in(std::span<std::byte> memory, std::span<const BucketSpec> buckets) {
  return memory.empty() ? nullptr : std::make_unique<Contribution>(memory, buckets, 0);
}

/// What the collective reads and writes has its life: a loop that is left in the middle of a step leaves tensors under
/// way, which the engine goes on to sum for the other ranks.
struct SummedMemory {
  SummedMemory(const RecipeContext& context, const OrderingOptions& ordering, std::uint64_t num_notes)
      : sums(context.replica.buckets(), 1),
        own_notes(num_notes),
        sum_of_notes(num_notes),
        tensors(context.engine, with_memory(ordering, context.replica.buckets())),
        gradients(gradients_in(tensors.memory(), context.replica.buckets())),
        shared_sums(shared_in(tensors.shared_sums(), context.replica.buckets())) {}

  Contribution sums;
  std::vector<std::int64_t> own_notes, sum_of_notes;
  OrderedAllreduce tensors;
  const std::unique_ptr<Contribution> gradients;    // perhaps in memory of `tensors`
  const std::unique_ptr<Contribution> shared_sums;  // in that memory; null: the ranks share none
};

/// The tensors of a replica; of one that hands over whole buckets alone, those.
std::vector<TrainedTensor> tensors_of(Replica& replica) {
  if (const GradientsByTensor* const by_tensor = replica.gradients_by_tensor()) {
    return {by_tensor->trained_tensors().begin(), by_tensor->trained_tensors().end()};
  }
  std::vector<TrainedTensor> out;
  for (const BucketSpec& bucket : replica.buckets()) {
    const int number = static_cast<int>(out.size());
    out.push_back({.name = text("bucket ", number), .type = bucket.type, .count = bucket.count, .bucket = number});
  }
  return out;
}

class OrderedSync final : public Recipe, private OrderedGradients {
 public:
  OrderedSync(const RecipeContext& context, const OrderingChoice& choice);
  ~OrderedSync() override;

  void begin_step(const DepositInfo& step) override;
  std::optional<std::string> end_backward() override;
  void deposit(const DepositInfo& step) override;
  void pass(const DepositInfo& step) override;
  Result<int> sum_in_pass(const TensorDescription& tensor, std::span<std::byte> data, Driver& driver,
                          TimePoint deadline) override;
  Result<int> advance(Driver& driver, TimePoint deadline) override;
  Result<int> finish(Driver& driver, TimePoint deadline) override;
  Result<bool> drain(Driver& driver) override;

  std::vector<std::shared_ptr<Collective>> collectives() const override {
    return {std::shared_ptr<Collective>(summed_, &summed_->tensors)};
  }
  Round rounds() const override { return tensors_->steps(); }
  RecipeMemory memory() const override;
  bool averages_gradients() const override { return true; }
  std::vector<std::string> take_lines() override;
  OrderedGradients* ordered() override { return this; }
  OrderingStatistics statistics() const override { return tensors_->statistics(); }
  void record_timeline() override { tensors_->record_timeline(); }
  std::vector<TensorTimes> take_timeline() override { return tensors_->take_timeline(); }

 private:
  /// Where the step is that begin_step() has begun.
  enum class Phase {
    none,       // no step, or one of which nothing has been handed over
    submitted,  // some of it has
    complete,   // all of it has, and the ranks may be waiting for one another
  };

  void record();
  /// A gradient lies in its memory.
  void ready(int tensor);
  /// Hands a gradient over. In any of several threads, each tensor once a step.
  void submit(int tensor);
  /// The step begins for the other ranks.
  void begin();
  /// Hands over the rest of a step, and what it has executed.
  void complete();
  std::optional<std::string> non_finite() const;
  void apply(const OrderedStep& step);
  /// The sums of a step, by bucket, where all of them lie.
  std::span<const std::span<const std::byte>> sums_of(const OrderedStep& step);
  /// Where nobody has brought a tensor lies what an earlier step has left there.
  void clear_all_but(std::span<const TensorDescription* const> reduced);

  std::span<std::byte> memory_of(int tensor, Contribution& in);
  Argument sum_of(int tensor);
  TensorDescription notes_description() const;
  Argument notes_in();
  Argument notes_out();

  const RecipeContext context_;
  const std::vector<TrainedTensor> trained_;
  GradientsByTensor* const by_tensor_;  // of the replica; null: it hands over whole buckets alone
  const bool overlap_;                  // gradients are handed over during the backward pass
  const std::unique_ptr<RoundNotes> notes_;
  const std::shared_ptr<SummedMemory> summed_;
  OrderedAllreduce* const tensors_;                             // of it
  std::vector<std::span<std::byte>> memory_;                    // of the gradients, by bucket
  std::vector<std::span<const std::byte>> sums_, shared_sums_;  // by bucket
  std::vector<TensorDescription> descriptions_;                 // by tensor
  std::unordered_map<std::string, int> tensor_named_;

  bool records_ = false;                // the replica, the graph of each step
  std::optional<StepNumber> observed_;  // the first step that was to be recorded, and was not
  bool told_of_observed_ = false;
  Phase phase_ = Phase::none;
  const DepositInfo* step_ = nullptr;  // under way
  TimePoint began_;
  std::vector<int> computed_;       // gradients that wait for the end of the pass
  std::optional<std::string> sum_;  // inside the model, that the pass waits for
  std::atomic<int> poisoned_{-1};   // a tensor of this step that is not finite; relaxed: read after the threads' end

  ReadyOrder order_;  // its threads hand over what is above
};

OrderedSync::OrderedSync(const RecipeContext& context, const OrderingChoice& choice)
    : context_(context),
      trained_(tensors_of(context.replica)),
      by_tensor_(context.replica.gradients_by_tensor()),
      overlap_(context.options.overlap || context.replica.model_collectives() != nullptr),
      notes_(make_round_notes(context)),
      summed_(std::make_shared<SummedMemory>(context, choice.ordering, notes_ ? notes_->bucket().count : 0)),
      tensors_(&summed_->tensors),
      order_(choice.ready, context.engine.rank(), [this](int tensor) { submit(tensor); }) {
  check_weights(context.options.normalize, context.replica.buckets());
  for (int b = 0; b < summed_->gradients->num_buckets(); ++b) {
    memory_.push_back(summed_->gradients->bucket(b));
    sums_.push_back(summed_->sums.bucket(b));
    if (summed_->shared_sums) shared_sums_.push_back(summed_->shared_sums->bucket(b));
  }
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const int tensor = static_cast<int>(i);
    tensor_named_.emplace(trained_[i].name, tensor);
    descriptions_.push_back({.name = trained_[i].name, .type = trained_[i].type, .count = trained_[i].count});
    const std::unique_ptr<Contribution>& shared = summed_->shared_sums;
    tensors_->destination(descriptions_.back(), sum_of(tensor), shared ? memory_of(tensor, *shared).data() : nullptr);
  }
  if (notes_) tensors_->destination(notes_description(), notes_out());
  if (by_tensor_ != nullptr) {
    by_tensor_->on_gradient_ready([this](int tensor) { ready(tensor); }, overlap_);
  } else {
    context_.replica.on_bucket_ready([this](int bucket) { ready(bucket); });
  }
}

OrderedSync::~OrderedSync() {
  context_.replica.on_bucket_ready(nullptr);
  if (by_tensor_ == nullptr) return;
  by_tensor_->on_gradient_ready(nullptr);
  by_tensor_->record_graphs(false);
}

std::span<std::byte> OrderedSync::memory_of(int tensor, Contribution& in) {
  const TrainedTensor& t = trained_[static_cast<std::size_t>(tensor)];
  const std::size_t size = size_of(t.type);
  return in.bucket(t.bucket).subspan(t.offset * size, t.count * size);
}

Argument OrderedSync::sum_of(int tensor) {
  const TrainedTensor& t = trained_[static_cast<std::size_t>(tensor)];
  return Argument::out(t.type, t.count, memory_of(tensor, summed_->sums).data());
}

TensorDescription OrderedSync::notes_description() const {
  return {.name = kNotes, .type = DataType::int64, .count = summed_->own_notes.size()};
}
Argument OrderedSync::notes_in() {
  return Argument::in(summed_->own_notes);
}
Argument OrderedSync::notes_out() {
  return Argument::out(summed_->sum_of_notes);
}

RecipeMemory OrderedSync::memory() const {
  std::uint64_t bytes = tensors_->memory_bytes();
  for (const auto& bucket : memory_) bytes += (summed_->shared_sums ? 3 : 2) * bucket.size();
  return {bytes, text("1 set and its sum", summed_->shared_sums ? ", that of all ranks" : "", ", and ",
                      tensors_->options().in_flight, " buffers under way")};
}

void OrderedSync::begin_step(const DepositInfo& step) {
  step_ = &step;
  began_ = context_.engine.clock().now();
  computed_.clear();
  poisoned_.store(-1, std::memory_order_relaxed);
  record();
  context_.replica.attach(summed_->gradients->index(), memory_);
  if (ModelCollectives* sums = context_.replica.model_collectives()) sums->begin_step();
}

/// The graph of a step is of use where no plan orders it.
void OrderedSync::record() {
  const bool wanted =
      by_tensor_ != nullptr && tensors_->options().kind == OrderingOptions::Kind::topo && !tensors_->follows_plan();
  if (std::exchange(records_, wanted) != wanted) by_tensor_->record_graphs(wanted);
}

void OrderedSync::begin() {
  if (phase_ != Phase::none) return;
  DepositInfo so_far = *step_;
  if (overlap_) so_far.computed = context_.engine.clock().now() - began_;
  tensors_->begin_step(so_far);
  phase_ = Phase::submitted;
}

void OrderedSync::ready(int tensor) {
  if (!overlap_) return computed_.push_back(tensor);
  begin();
  order_.ready(tensor);
}

void OrderedSync::submit(int tensor) {
  const TrainedTensor& t = trained_[static_cast<std::size_t>(tensor)];
  const auto memory = memory_of(tensor, *summed_->gradients);
  // After a pass end_backward() has looked at all of them.
  if (overlap_ && !all_finite(t.type, memory)) return poisoned_.store(tensor, std::memory_order_relaxed);
  if (context_.options.normalize == Normalize::samples) {
    scale(t.type, memory, memory, static_cast<double>(step_->samples));
  }
  tensors_->submit(descriptions_[static_cast<std::size_t>(tensor)], Argument::in(t.type, t.count, memory.data()),
                   sum_of(tensor));
}

std::optional<std::string> OrderedSync::non_finite() const {
  const int tensor = poisoned_.load(std::memory_order_relaxed);
  if (tensor < 0) return std::nullopt;
  return context_.replica.find_non_finite(trained_[static_cast<std::size_t>(tensor)].bucket);
}

std::optional<std::string> OrderedSync::end_backward() {
  context_.replica.end_backward();
  if (overlap_) {
    order_.flush();
    return non_finite();
  }
  for (int b = 0; b < summed_->gradients->num_buckets(); ++b) {
    if (auto found = context_.replica.find_non_finite(b)) return found;
  }
  return std::nullopt;
}

void OrderedSync::deposit(const DepositInfo&) {
  complete();
}

void OrderedSync::pass(const DepositInfo& step) {
  if (phase_ != Phase::none) {
    throw UsageError(
        "pass() after gradients of the batch have been handed over: expected no overlap, and no sums inside the model, "
        "where a rank may drop a batch");
  }
  tensors_->begin_step({.batches = 0, .samples = 0, .waited = step.waited});
  phase_ = Phase::complete;
}

void OrderedSync::complete() {
  if (phase_ == Phase::complete) return;
  begin();
  for (const int tensor : computed_) order_.ready(tensor);
  order_.flush();
  if (notes_) {
    notes_->write(summed_->own_notes, context_.replica, tensors_->steps(), context_.listener.take_counts());
    tensors_->submit(notes_description(), notes_in(), notes_out());
  }
  if (records_) {
    if (const auto graph = by_tensor_->take_graph()) {
      tensors_->executed(*graph);
    } else if (!observed_) {
      observed_ = tensors_->steps();
    }
  }
  phase_ = Phase::complete;
}

std::vector<std::string> OrderedSync::take_lines() {
  std::vector<std::string> lines = tensors_->take_lines();
  if (context_.engine.rank() == 0 && observed_ && !std::exchange(told_of_observed_, true)) {
    lines.push_back(text("step ", *observed_,
                         ": the loop calls loss.backward() itself, which records no graph: topo plans by the order in "
                         "which rank 0's gradients became ready"));
  }
  return lines;
}

Result<int> OrderedSync::sum_in_pass(const TensorDescription& tensor, std::span<std::byte> data, Driver& driver,
                                     TimePoint deadline) {
  if (!sum_) {
    begin();
    order_.flush();  // other ranks may come to this sum only after the gradients before it
    const Argument memory = Argument::out(tensor.type, tensor.count, data.data());
    tensors_->submit(tensor, Argument::in(tensor.type, tensor.count, data.data()), memory);
    sum_ = tensor.name;
  }
  const auto done = tensors_->wait(driver, tensor.name, deadline);
  if (!done) return done.error();
  sum_.reset();
  return 0;
}

Result<int> OrderedSync::advance(Driver& driver, TimePoint deadline) {
  complete();
  const auto done = tensors_->end_step(driver, deadline, [this](const OrderedStep& step) { apply(step); });
  if (!done) return done.error();
  phase_ = Phase::none;
  return 1;
}

Result<int> OrderedSync::finish(Driver& driver, TimePoint deadline) {
  int rounds = 0;
  if (phase_ != Phase::none) {  // a loop that was left between backward pass and step: all ranks wait for the rest
    auto last = advance(driver, deadline);
    if (!last) return last;
    rounds = *last;
  }
  auto others = tensors_->finish(driver, deadline, [this](const OrderedStep& step) { apply(step); });
  return others ? Result<int>(rounds + *others) : others;
}

Result<bool> OrderedSync::drain(Driver&) {
  const auto applied = [this](const OrderedStep& step) { apply(step); };
  if (phase_ != Phase::none) {
    complete();
    const auto ended = tensors_->try_end_step(applied);
    if (!ended) return ended.error();
    if (*ended == OrderedAllreduce::Progress::waiting) return false;
    phase_ = Phase::none;
  }
  const auto finished = tensors_->try_finish(applied);
  if (!finished) return finished.error();
  return *finished == OrderedAllreduce::Progress::done;
}

void OrderedSync::apply(const OrderedStep& step) {
  const RoundResult result{
      .round = step.step, .policy = Policy::full(), .header = step.header, .buckets = sums_of(step)};
  move_by_average(context_, notes_.get(), result, summed_->sum_of_notes);
  context_.listener.after(result);
}

std::span<const std::span<const std::byte>> OrderedSync::sums_of(const OrderedStep& step) {
  if (step.shared.size() == trained_.size()) return shared_sums_;
  for (const TensorDescription* const tensor : step.shared) {
    const int known = tensor_named_.at(tensor->name);
    const auto from = memory_of(known, *summed_->shared_sums), to = memory_of(known, summed_->sums);
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  }
  clear_all_but(step.reduced);
  return sums_;
}

void OrderedSync::clear_all_but(std::span<const TensorDescription* const> reduced) {
  std::vector<bool> there(trained_.size());
  for (const TensorDescription* const tensor : reduced) {
    const auto known = tensor_named_.find(tensor->name);
    if (known != tensor_named_.end()) there[static_cast<std::size_t>(known->second)] = true;
  }
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (!there[i]) std::ranges::fill(memory_of(static_cast<int>(i), summed_->sums), std::byte{0});
  }
}

}  // namespace

std::unique_ptr<Recipe> make_ordered_sync(const RecipeContext& context, OrderingChoice choice) {
  return std::make_unique<OrderedSync>(context, choice);
}

}  // namespace stretto
