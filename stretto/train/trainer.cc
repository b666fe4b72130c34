#include "stretto/train/trainer.h"

#include <algorithm>
#include <thread>

#include "stretto/base/random.h"
#include "stretto/engine/driver.h"
#include "stretto/imbalance/pace.h"
#include "stretto/observe/ledger.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/trace.h"
#include "stretto/train/flat_math.h"
#include "stretto/train/meeting.h"
#include "stretto/train/summary_json.h"
#include "stretto/train/sync_points.h"

namespace stretto {
namespace {

constexpr Duration kSilence = std::chrono::seconds(10);  // before it is said who is waited for
constexpr std::uint64_t kBatchStream = 0x6261746368;     // of what is random in a batch
constexpr std::uint64_t kLossBins = 200;

DriverOptions driver_options(const RunPlan& plan) {
  DriverOptions options{.progress_by = plan.options.progress_by};
  // A rank that spins takes the core from one that computes.
  if (plan.options.ranks >= static_cast<int>(std::thread::hardware_concurrency())) options.spin = Duration(0);
  return options;
}

std::uint64_t batches_before(const TrainerContext& context) {
  return context.resume != nullptr ? context.resume->batches : 0;
}

RecipeOptions recipe_options(const TrainerContext& context) {
  RecipeOptions options = context.plan.recipe;
  options.batches_before = batches_before(context);
  return options;
}

Replica& loaded(const TrainerContext& context) {
  Replica& replica = context.task.replica();
  if (context.resume != nullptr) {
    require_same_model(*context.resume, replica);
    replica.load(context.resume->state_path);
    if (replica.checksum() != context.resume->checksum) {
      throw Failure(
          {Errc::bad_input, text(context.resume->state_path, ": the weights it holds are not those that were saved")});
    }
  }
  return replica;
}

std::uint64_t hash_of(const std::string& text) {
  Hash64 hash;
  hash.add(text);
  return hash.value();
}

}  // namespace

class Trainer::Impl final : public RoundListener {
 public:
  explicit Impl(const TrainerContext& context);
  RankReport run();

 private:
  void before(const RoundResult& result) override;
  void after(const RoundResult& result) override;

  void begin();
  void compare_fingerprints();
  void step(const BatchRef& batch);
  [[noreturn]] void stop_for(const std::string& non_finite, const BatchRef& batch);
  /// Calls until it does not time out, and says who is missing when it does.
  int insist(FunctionRef<Result<int>(TimePoint)> call);
  void record(const BatchRef& batch, const PacedStep& step, double loss, Round base, int rounds);
  void note_loss(double loss);
  RoundTotals totals(std::uint64_t made_by_all);
  void end();

  const TrainerContext context_;
  const int rank_;

  // In the order in which they depend on one another: the driver, with its helper thread, ends first.
  Engine engine_;
  Replica& replica_;
  Meeting meeting_;
  std::unique_ptr<Recipe> recipe_;
  EngineDriver driver_;

  BatchPlan batches_;
  Dispenser dispenser_;
  SyncPoints sync_points_;
  Pacer pacer_;
  std::optional<RunFolder> folder_;
  std::optional<RecordWriter> records_;
  std::optional<TraceWriter> trace_;
  Ledger ledger_;  // rank 0 alone

  std::uint64_t applied_;  // batches, since the start of the job
  Round next_round_ = 0;
  TimePoint start_;  // of the first step
  TimePoint last_applied_;
  Duration waited_{0};  // inside the last exchange
  RankReport report_;
};

Trainer::Impl::Impl(const TrainerContext& context)
    : context_(context),
      rank_(context.transport.rank()),
      engine_(context.transport, context.clock),
      replica_(loaded(context)),
      meeting_(engine_, replica_),
      recipe_(context.plan.algorithm.recipe->make({replica_, engine_, meeting_, *this, recipe_options(context)})),
      driver_(engine_, driver_options(context.plan)),
      batches_(context.plan.batches),
      dispenser_(batches_, context.plan.sharing, rank_, context.counter,
                 context.resume != nullptr ? context.resume->position : DispenserPosition(context.plan.options.ranks)),
      sync_points_({context.plan, rank_, replica_, meeting_, *recipe_, dispenser_, context.resume, context.page}),
      pacer_(context.plan.pace, context.clock),
      ledger_(context.plan.options.ranks),
      applied_(batches_before(context)) {
  report_.rank = rank_;
}

RankReport Trainer::Impl::run() {
  try {
    begin();
    while (const auto batch = dispenser_.next()) step(*batch);
    insist([this](TimePoint deadline) { return recipe_->finish(driver_, deadline); });
    end();
  } catch (const Failure&) {
    throw;  // the others know, or will see that this rank ends
  } catch (const std::exception& error) {
    recipe_->collective().abort(driver_, error.what());
    throw;
  }
  return report_;
}

void Trainer::Impl::begin() {
  compare_fingerprints();
  meeting_.broadcast_weights(driver_);
  replica_.set_lr_factor(context_.plan.lr.factor(applied_, context_.plan.options.ranks));
  if (rank_ == 0) {
    const PartialAllreduce& collective = recipe_->collective();
    context_.page.tell(text("each rank holds ", collective.num_contribution_sets(), " sets of gradients and ",
                            collective.options().max_lag, " results: ", (collective.memory_bytes() + 1023) / 1024,
                            " KiB"));
  }
  meeting_.gather(driver_, {});  // a barrier: the clock of the run starts on all ranks alike
  start_ = last_applied_ = context_.clock.now();
  context_.page.started(start_);
  if (!context_.folder.empty()) {
    auto there = RunFolder::open(context_.folder);
    folder_ = there ? *there : RunFolder::create(context_.folder);  // ranks on another host have a folder of their own
    sync_points_.save_to(*folder_);
    const auto mode = context_.resume != nullptr ? LineFile::Mode::append : LineFile::Mode::replace;
    records_.emplace(*folder_, rank_, mode);
    trace_.emplace(folder_->trace_file(rank_), rank_, context_.page.start().value_or(start_));
  }
}

void Trainer::Impl::compare_fingerprints() {
  struct Part {
    const char* what;
    std::string text;
  };
  const Part parts[] = {{"version", text("stretto ", stretto_version(), ", ", replica_.library())},
                        {"options", to_json(context_.plan.options)},
                        {"model", replica_.model_description()},
                        {"optimizer", replica_.optimizer_description()},
                        {"checkpoint", text(applied_)}};
  Meeting::Numbers mine{};
  for (std::size_t i = 0; i < std::size(parts); ++i) mine[i] = hash_of(parts[i].text);
  const auto all = meeting_.gather(driver_, mine);
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank][i] == all[0][i]) continue;
      throw UsageError(text("rank ", rank, " has another ", parts[i].what, " than rank 0; here, on rank ", rank_,
                            ", it is: ", parts[i].text));
    }
  }
}

void Trainer::Impl::step(const BatchRef& batch) {
  const auto draw = context_.plan.imbalance.draw(context_.plan.options.seed, rank_, batch.step);
  const Round base = next_round_;
  pacer_.begin();
  recipe_->begin_step(batch.samples.size(), waited_);
  const std::uint64_t seed = random_bits(context_.plan.options.seed, kBatchStream, batch.sequence);
  const double loss = context_.task.forward_backward(batch.samples, seed);
  if (const auto non_finite = recipe_->end_backward()) stop_for(*non_finite, batch);
  const PacedStep paced = pacer_.end(batch.units, draw);
  recipe_->deposit(paced.computed + paced.paced + paced.delayed);
  dispenser_.deposited();
  note_loss(loss);
  report_.made += 1;
  report_.units += batch.units;
  report_.computed += seconds(paced.computed);

  const TimePoint arrived = context_.clock.now();
  const int rounds = insist([this](TimePoint deadline) { return recipe_->exchange(driver_, deadline); });
  waited_ = context_.clock.now() - arrived;
  report_.waited += seconds(waited_);
  record(batch, paced, loss, base, rounds);
}

void Trainer::Impl::stop_for(const std::string& non_finite, const BatchRef& batch) {
  const Error error{Errc::aborted,
                    text("the gradient of ", non_finite, " is not finite on rank ", rank_, ", step ", batch.step,
                         " (batch ", batch.sequence, "); a smaller learning rate may help"),
                    rank_};
  recipe_->collective().abort(driver_, error.message);
  throw Failure(error);
}

int Trainer::Impl::insist(FunctionRef<Result<int>(TimePoint)> call) {
  for (;;) {
    const Result<int> rounds = call(driver_.deadline(kSilence));
    if (rounds) return *rounds;
    if (rounds.error().code != Errc::timeout) throw Failure(rounds.error());
    if (context_.page.claim(next_round_)) context_.page.tell(rounds.error().message);
  }
}

void Trainer::Impl::before(const RoundResult&) {
  replica_.set_lr_factor(context_.plan.lr.factor(applied_, context_.plan.options.ranks));
}

void Trainer::Impl::after(const RoundResult& result) {
  const RoundHeader& header = *result.header;
  const TimePoint now = context_.clock.now();
  next_round_ = result.round + 1;
  applied_ += header.batches;
  if (!result.empty()) last_applied_ = now;
  if (rank_ == 0) ledger_.add(result.round, result.policy.encode(), header, seconds(now - start_));
  if (trace_) {
    const auto fate = header.fresh.contains(rank_)   ? TraceWriter::Fate::fresh
                      : header.stale.contains(rank_) ? TraceWriter::Fate::stale
                                                     : TraceWriter::Fate::null;
    trace_->round({.round = result.round,
                   .fate = fate,
                   .arrived = header.arrived.count(),
                   .contributors = header.contributors(),
                   .batches = header.batches,
                   .staleness = header.max_staleness(result.round)},
                  now);
  }
  context_.page.applied(applied_, next_round_);
  sync_points_.after_round(driver_, result, applied_);
}

void Trainer::Impl::record(const BatchRef& batch, const PacedStep& step, double loss, Round base, int rounds) {
  if (!records_) return;
  records_->add({.step = batch.step,
                 .rank = rank_,
                 .round = base,
                 .base = base,
                 .batch = batch.sequence,
                 .epoch = batch.epoch,
                 .samples = batch.samples.size(),
                 .units = batch.units,
                 .loss = loss,
                 .begin = step.begin - start_,
                 .computed = step.computed,
                 .paced = step.paced,
                 .delayed = step.delayed,
                 .waited = waited_,
                 .rounds_applied = rounds});
  TimePoint at = step.begin;
  const std::pair<TraceWriter::Kind, Duration> slices[] = {{TraceWriter::Kind::compute, step.computed},
                                                           {TraceWriter::Kind::paced, step.paced},
                                                           {TraceWriter::Kind::delay, step.delayed},
                                                           {TraceWriter::Kind::wait, waited_}};
  for (const auto& [kind, duration] : slices) {
    trace_->slice(kind, at, duration, batch.step);
    at = at + duration;
  }
}

void Trainer::Impl::note_loss(double loss) {
  const std::uint64_t width = std::max<std::uint64_t>(1, context_.plan.total_batches / kLossBins);
  if (report_.losses.empty() || applied_ / width > report_.losses.back().batches / width) {
    report_.losses.push_back({.batches = applied_});
  }
  LossBin& bin = report_.losses.back();
  bin.seconds = seconds(context_.clock.now() - start_);
  bin.sum += loss;
  ++bin.count;
}

RoundTotals Trainer::Impl::totals(std::uint64_t made_by_all) {
  ledger_.close();
  ledger_.set_deposits(made_by_all, 0);  // the last round takes everything
  const RankAccount all = ledger_.total();
  return {.rounds = next_round_,
          .batches = ledger_.batches(),
          .staleness_mean = ledger_.staleness_mean(),
          .staleness_max = ledger_.staleness_max(),
          .fresh = all.fresh,
          .stale = all.stale,
          .null = all.null,
          .lost_seconds = ledger_.lost_seconds(),
          .lost_deposits = ledger_.lost_deposits(),
          .ledger = ledger_.to_text([](std::uint64_t word) { return Policy::decode(word).to_string(); })};
}

void Trainer::Impl::end() {
  report_.seconds = seconds(last_applied_ - start_);
  report_.compute_share = pacer_.real_compute_share();
  sync_points_.finish(driver_);
  report_.identical = sync_points_.identical();
  std::uint64_t made = 0;
  for (const auto& numbers : meeting_.gather(driver_, {report_.made})) made += numbers[0];
  if (rank_ == 0) report_.totals = totals(made);
  if (records_) {
    records_->flush();
    trace_->flush();
    report_.lost_records = records_->lost() + trace_->lost();
  }
}

Trainer::Trainer(const TrainerContext& context) : impl_(std::make_unique<Impl>(context)) {}

Trainer::~Trainer() = default;

RankReport Trainer::run() {
  return impl_->run();
}

}  // namespace stretto
