#include "stretto/train/trainer.h"

#include <algorithm>

#include "stretto/base/random.h"
#include "stretto/imbalance/pace.h"
#include "stretto/observe/ledger.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/trace.h"
#include "stretto/train/session.h"
#include "stretto/train/summary_json.h"
#include "stretto/train/sync_points.h"
#include "stretto/transport/memory_budget.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBatchStream = 0x6261746368;  // of what is random in a batch
constexpr std::uint64_t kLossBins = 200;

std::uint64_t batches_before(const TrainerContext& context) {
  return context.resume != nullptr ? context.resume->batches : 0;
}

SessionOptions session_options(const TrainerContext& context) {
  SessionOptions options{.recipe = context.plan.algorithm.recipe,
                         .recipe_options = context.plan.recipe,
                         .progress_by = context.plan.options.progress_by,
                         .silence = context.silence,
                         .tell = [&page = context.page](Round open, const std::string& line) {
                           if (page.claim(open)) page.tell(line);  // one of the ranks that wait says it
                         }};
  options.recipe_options.batches_before = batches_before(context);
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

}  // namespace

class Trainer::Impl final : public RoundListener {
 public:
  explicit Impl(const TrainerContext& context);
  RankReport run();

 private:
  void before(const RoundResult& result) override;
  void after(const RoundResult& result) override;

  void begin();
  /// What the collective holds must fit into the memory of this machine; said before the first step.
  void check_memory();
  void step(const BatchRef& batch);
  void record(const BatchRef& batch, const PacedStep& step, double loss, Round base, int rounds);
  void note_loss(double loss);
  RoundTotals totals(std::uint64_t made_by_all);
  void end();

  const TrainerContext context_;
  const int rank_;

  Replica& replica_;
  Session session_;

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
      replica_(loaded(context)),
      session_(context.transport, context.clock, replica_, *this, session_options(context)),
      batches_(context.plan.batches),
      dispenser_(batches_, context.plan.sharing, rank_, context.counter,
                 context.resume != nullptr ? context.resume->position : DispenserPosition(context.plan.options.ranks)),
      sync_points_({context.plan, rank_, replica_, session_.meeting(), session_.recipe(), dispenser_, context.resume,
                    context.page}),
      pacer_(context.plan.pace, context.clock),
      ledger_(context.plan.options.ranks),
      applied_(batches_before(context)) {
  report_.rank = rank_;
}

RankReport Trainer::Impl::run() {
  try {
    begin();
    while (const auto batch = dispenser_.next()) step(*batch);
    session_.finish();
    end();
  } catch (const Failure&) {
    throw;  // the others know, or will see that this rank ends
  } catch (const std::exception& error) {
    session_.abort(error.what());
    throw;
  }
  return report_;
}

void Trainer::Impl::begin() {
  const Session::Fingerprint fingerprints[] = {
      {"version", text("stretto ", stretto_version(), ", ", replica_.library())},
      {"options", to_json(context_.plan.options)},
      {"model", replica_.model_description()},
      {"optimizer", replica_.optimizer_description()},
      {"checkpoint", text("after ", applied_, " batches")}};
  session_.begin(fingerprints);
  replica_.set_lr_factor(context_.plan.lr.factor(applied_, context_.plan.options.ranks));
  if (rank_ == 0) check_memory();
  session_.meeting().gather(session_.driver(), {});  // a barrier: the clock of the run starts on all ranks alike
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

void Trainer::Impl::check_memory() {
  const PartialAllreduce& collective = session_.collective();
  const std::uint64_t bytes = collective.memory_bytes();
  const int lag = collective.options().max_lag;
  const std::string needed =
      text("gradients take ", format_bytes(bytes), " a rank: ", collective.num_contribution_sets(),
           " sets, and the results of ", lag, lag == 1 ? " round" : " rounds");
  if (std::string_view(context_.transport.name()) != "shm") return context_.page.tell(needed);
  const std::uint64_t total = bytes * static_cast<std::uint64_t>(session_.ranks());
  const MemoryBudget budget = memory_budget();
  context_.page.tell(text(needed, ", ", format_bytes(total), " in all"));
  if (total > budget.bytes) {
    throw Failure({Errc::unavailable,
                   text(needed, ", ", format_bytes(total), " in all ", session_.ranks(), " ranks; ", budget.limit, ": ",
                        format_bytes(budget.bytes), ". A smaller max-lag or fewer ranks take less"),
                   rank_});
  }
}

void Trainer::Impl::step(const BatchRef& batch) {
  const auto draw = context_.plan.imbalance.draw(context_.plan.options.seed, rank_, batch.step);
  const Round base = next_round_;
  pacer_.begin();
  session_.begin_step(batch.samples.size(), waited_);
  const std::uint64_t seed = random_bits(context_.plan.options.seed, kBatchStream, batch.sequence);
  const double loss = context_.task.forward_backward(batch.samples, seed);
  session_.end_backward(text("step ", batch.step, " (batch ", batch.sequence, ")"));
  const PacedStep paced = pacer_.end(batch.units, draw);
  session_.deposit(paced.computed + paced.paced + paced.delayed);
  dispenser_.deposited();
  note_loss(loss);
  report_.made += 1;
  report_.units += batch.units;
  report_.computed += seconds(paced.computed);

  const TimePoint arrived = context_.clock.now();
  const int rounds = session_.exchange();
  waited_ = context_.clock.now() - arrived;
  report_.waited += seconds(waited_);
  record(batch, paced, loss, base, rounds);
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
  sync_points_.after_round(session_.driver(), result, applied_);
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
  sync_points_.finish(session_.driver());
  report_.identical = sync_points_.identical();
  std::uint64_t made = 0;
  for (const auto& numbers : session_.meeting().gather(session_.driver(), {report_.made})) made += numbers[0];
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
