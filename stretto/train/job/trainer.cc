#include "stretto/train/job/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "stretto/base/machine/cores.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/base/random.h"
#include "stretto/imbalance/pace.h"
#include "stretto/membership/changes.h"
#include "stretto/observe/ledger.h"
#include "stretto/observe/quantile.h"
#include "stretto/train/job/evaluations.h"
#include "stretto/train/job/files/rank_0_checkpoint.h"
#include "stretto/train/job/files/rank_files.h"
#include "stretto/train/job/members/job_account.h"
#include "stretto/train/job/members/run_members.h"
#include "stretto/train/job/session.h"
#include "stretto/train/job/step/input_pipeline.h"
#include "stretto/train/job/step/timed_pass.h"
#include "stretto/train/job/summarize.h"
#include "stretto/train/job/summary_json.h"
#include "stretto/train/job/sync_points.h"
#include "stretto/train/recipes/ordered_gradients.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBatchStream = 0x6261746368;  // of the draws inside a batch
constexpr std::uint64_t kLossBins = 200;

std::uint64_t batches_before(const TrainerContext& context) {
  return context.resume != nullptr ? context.resume->batches : 0;
}

SessionOptions session_options(const TrainerContext& context) {
  SessionOptions options{.recipe = context.plan.algorithm.recipe,
                         .recipe_options = context.plan.recipe,
                         .policy_of = context.plan.policy_of,
                         .progress_by = context.plan.options.progress_by,
                         .silence = context.silence,
                         .virtual_time = context.place != nullptr,
                         .tell = [&page = context.page](Round open, const std::string& line) {
                           if (page.claim(open)) page.tell(line);  // one of the ranks that wait says it
                         }};
  options.recipe_options.batches_before = batches_before(context);
  return options;
}

}  // namespace

class Trainer::Impl final : public RoundListener {
 public:
  explicit Impl(const TrainerContext& context);
  ~Impl() override;
  RankReport run();

 private:
  void before(const RoundResult& result) override;
  void apart(double share) override { report_.add_apart(share); }
  void after(const RoundResult& result) override;
  std::string state() override {
    const Duration elapsed = elapsed_since(context_.page.start(), clock().now());
    return encoded_account({applied_, reached_, next_round_, elapsed}, *members_, ledger_);
  }
  void take_state(const std::string& state) override;

  void begin();
  /// Waits for all ranks, so that the clock of the run starts on all alike. Returns its start by this rank's clock;
  /// between hosts whose clocks have been compared that is one instant, when the last rank has come.
  TimePoint begin_together();
  const Clock& clock() const { return members_change() ? lasting_clock_ : session_.world().clock(); }
  const Members& members() const { return session_.world().transport().members(); }
  /// From the checkpoint where the job continues.
  void load();
  /// The memory of the recipe's collectives must fit into this machine; checked before the first step.
  void check_memory();
  void step(const BatchRef& batch);
  /// begin_step() to end_backward() of the session, for as long as the pace and the delays say.
  PacedStep compute(const BatchRef& batch, double& loss);
  void moves_by_itself(const BatchRef& batch);
  /// On rank 0, between two steps.
  void evaluate();
  /// Takes a round into account, whose numbers this rank may not have been handed.
  void note_round(Round round, const Policy& policy, const RoundHeader& header);
  /// The same of the rounds that delivery latest has passed over, once.
  void note_passed(const RoundResult& result);
  /// Throws Failure if the job has been stopped: there is no sense in computing on.
  void require_going_on() const;
  /// Writes the record of the step under way, if it has none yet: with what is known of it by now.
  void record();
  /// For a checkpoint: every step up to it has its record in the file. Returns the seconds since the start of the job.
  double write_records();
  Duration since_start(TimePoint when) const { return before_ + (when - start_); }
  /// All that this rank has sent, with bodies as long as those of the model.
  Traffic traffic();
  void trace(TimePoint begin);
  void note_loss(double loss);
  void report_steps();
  RoundTotals totals(const Session::Comparison& last);
  void end();
  void look_at_members();
  bool members_change() const { return members_.has_value(); }
  /// Whether this rank does what one does for all: in a world of other members that may be another one.
  bool is_first() const { return session_.rank() == 0; }
  /// Those of the first rank; elsewhere null.
  Evaluations* evaluations();

  const TrainerContext context_;
  const SteadyClock steady_clock_;
  const Clock& lasting_clock_;  // of all worlds
  const int rank_;              // by which files and accounts know it
  const int place_;             // by which delays do

  Replica& replica_;
  Session session_;
  BatchPlan batches_;
  std::optional<RunMembers> members_;  // where they change
  Dispenser dispenser_;
  SyncPoints sync_points_;
  Pacer pacer_;
  TimedPass pass_;
  std::optional<InputPipeline> input_;
  std::optional<RankFiles> files_;
  Ledger ledger_;  // of rank 0, and where members change of each; by number
  std::optional<Evaluations> evaluations_;

  std::uint64_t applied_;  // batches, since the start of the job
  std::uint64_t reached_;  // the same; where models are averaged, by this rank's batches between rounds
  Round next_round_ = 0;
  TimePoint start_;  // of the first step
  TimePoint last_applied_;
  const Duration before_;  // from the start of the job to the checkpoint it goes on from
  TimePoint arrived_;      // at the last exchange
  TimePoint step_began_;
  std::optional<OrderingMeter> meter_;  // from the first step on
  std::vector<double> step_seconds_;
  Duration waited_{0};        // inside it
  StepRecord step_;           // under way
  bool recorded_ = true;      // it has been written
  int rounds_applied_ = 0;    // since the last record
  Traffic recorded_traffic_;  // up to that record
  Traffic traffic_before_;    // the first step
  RankReport report_;
};

Trainer::Impl::Impl(const TrainerContext& context)
    : context_(context),
      lasting_clock_(context.place != nullptr ? context.place->clock() : steady_clock_),
      rank_(number_of(context.rank)),
      place_(place_of(context.rank) % context.plan.options.ranks),  // processes that wait as spares have further ones
      replica_(context.task.replica()),
      session_(context.rank, replica_, *this, session_options(context)),
      batches_(context.plan.batches),
      members_(context.rank.changes() != nullptr
                   ? std::optional<RunMembers>(std::in_place, *context.rank.changes(), batches_.num_batches())
                   : std::nullopt),
      dispenser_(batches_, context.plan.sharing, place_, members_ ? members_->pool() : context.rank.counter(0),
                 dispenser_position(context.resume, context.plan.options.ranks, members_change())),
      sync_points_(
          {context.plan, replica_, session_, dispenser_, context.resume, context.page, context.rank.changes()}),
      pacer_(context.plan.pace, clock(), [&page = context.page](TimePoint when) { page.sleep_until(when); }),
      pass_(replica_, pacer_, context.place),
      ledger_(context.plan.options.ranks, members().host_names()),
      applied_(batches_before(context)),
      reached_(applied_),
      before_(from_seconds(context.resume != nullptr ? context.resume->seconds : 0)) {
  report_.rank = rank_;
  session_.bring_by_layer();
  (void)evaluations();
  if (context.place != nullptr)
    context.place->drive_engine(&session_.world().engine(), context.plan.options.progress_by);
}

Trainer::Impl::~Impl() {
  if (context_.place != nullptr) context_.place->drive_engine(nullptr);
}

Evaluations* Trainer::Impl::evaluations() {
  if (!is_first()) return nullptr;
  if (!evaluations_) {
    evaluations_.emplace(
        Evaluations::Context{context_.plan, context_.task, context_.second_task, [this] { require_going_on(); }},
        applied_);
  }
  return &*evaluations_;
}

RankReport Trainer::Impl::run() {
  return session_.telling([&] {
    begin();
    do {
      do {
        dispenser_.look_again();
        if (session_.recipe().takes_batches()) {
          while (const auto batch = dispenser_.next()) step(*batch);
        }
        session_.bring_weights();
        if (Evaluations* const all = evaluations()) all->before_last_rounds();
        session_.finish();
        look_at_members();
      } while (!session_.rounds_over());
    } while (!session_.end([this] { end(); }));
    return report_;
  });
}

void Trainer::Impl::begin() {
  if (context_.resume != nullptr && members_change()) load();  // who comes in later gets them from another rank
  session_.begin({{"set of options", to_json(context_.plan.options)}});
  if (context_.resume != nullptr && !members_change()) load();
  replica_.set_lr_factor(context_.plan.lr.factor(applied_, context_.plan.options.ranks));
  if (is_first()) check_memory();
  const TrainOptions& options = context_.plan.options;
  const CoreSets& cores = context_.plan.recipe.cores;
  if (!cores.application.empty()) pin_thread(cores.application);
  if (options.input_threads > 0) input_.emplace(options.input_threads, options.input_load, cores.input);
  if (const std::string warning = session_.recipe().warning(); is_first() && !warning.empty()) {
    context_.page.tell(warning);
  }
  start_ = last_applied_ = begin_together();
  if (members_change()) start_ = context_.page.start().value_or(start_);  // of the job, which may be under way
  meter_.emplace(context_.place == nullptr);
  traffic_before_ = recorded_traffic_ = traffic();
  context_.page.started(start_);
  look_at_members();
  if (!context_.folder.empty()) {
    const auto mode = context_.resume != nullptr ? LineFile::Mode::append : LineFile::Mode::replace;
    files_.emplace(RunFolder::open(context_.folder).or_throw(), rank_, mode, context_.page.start().value_or(start_));
    sync_points_.save_to(files_->folder(), [this] { return write_records(); });
    if (OrderedGradients* const ordered = session_.recipe().ordered(); ordered != nullptr && options.timeline) {
      ordered->record_timeline();
    }
  }
}

TimePoint Trainer::Impl::begin_together() {
  if (members_change()) return clock().now();  // they have waited for each other in begin()
  const bool one_clock = context_.place != nullptr || members().hosts() == 1;
  const auto ahead = one_clock ? std::nullopt : context_.rank.clock_offset();
  Meeting::Numbers mine{};  // whether the rank knows, and when it has come, by the clock of rank 0's host
  if (ahead) mine = {1, static_cast<std::uint64_t>((clock().now() - *ahead).since_start.count())};
  const auto all = session_.meeting().gather(session_.driver(), mine);
  const TimePoint now = clock().now();
  if (std::ranges::any_of(all, [](const Meeting::Numbers& theirs) { return theirs[0] == 0; })) return now;
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const Meeting::Numbers& theirs : all) last = std::max(last, static_cast<std::int64_t>(theirs[1]));
  return std::min(now, TimePoint{Duration(last)} + *ahead);
}

void Trainer::Impl::load() {
  const Checkpoint& from = *context_.resume;
  require_same_model(from, replica_);
  const std::string& folder = context_.plan.options.resume;
  Recipe* const recipe = from.algorithm == context_.plan.algorithm.recipe->name ? &session_.recipe() : nullptr;
  if (members_change()) return load_states(folder, from.paths, from.checksum, replica_, recipe);
  load_states(session_.meeting(), session_.driver(), folder, from.paths, from.checksum, replica_, recipe);
}

void Trainer::Impl::check_memory() {
  const auto [bytes, parts] = session_.recipe().memory();
  const std::string needed = text("gradients take ", format_bytes(bytes), " a rank: ", parts);
  const bool simulated = context_.place != nullptr;  // all ranks in this process
  if (!simulated && std::string_view(session_.world().transport().name()) != "shm") return context_.page.tell(needed);
  const std::uint64_t total = bytes * static_cast<std::uint64_t>(session_.ranks());
  const MemoryBudget budget = simulated ? available_memory() : memory_budget();
  context_.page.tell(text(needed, ", ", format_bytes(total), " in all"));
  if (total > budget.bytes) {
    throw Failure({Errc::unavailable,
                   text(needed, ", ", format_bytes(total), " in all ", session_.ranks(), " ranks; ", budget.limit, ": ",
                        format_bytes(budget.bytes), ". A smaller max-lag or fewer ranks take less"),
                   rank_});
  }
}

void Trainer::Impl::step(const BatchRef& batch) {
  const Round base = next_round_;
  step_began_ = clock().now();
  require_going_on();
  if (moves_own_weights(*context_.plan.algorithm.recipe)) moves_by_itself(batch);
  double loss = 0;
  const PacedStep paced = compute(batch, loss);
  require_going_on();
  session_.deposit(paced.computed + paced.paced + paced.delayed);
  dispenser_.deposited();
  note_loss(loss);
  report_.made += 1;
  report_.units += batch.units;
  report_.computed += seconds(paced.computed);

  step_ = {.step = batch.step,
           .rank = rank_,
           .round = base,
           .base = base,
           .batch = batch.sequence,
           .epoch = batch.epoch,
           .samples = batch.samples.size(),
           .units = batch.units,
           .loss = loss,
           .begin = since_start(paced.begin),
           .computed = paced.computed,
           .paced = paced.paced,
           .delayed = paced.delayed};
  recorded_ = false;
  arrived_ = clock().now();
  session_.take();
  look_at_members();
  waited_ = clock().now() - arrived_;
  report_.waited += seconds(pass_.waited() + waited_);
  if (context_.steps != nullptr) context_.steps->add(rank_, seconds(paced.computed + paced.paced + paced.delayed));
  record();
  trace(paced.begin);
  step_seconds_.push_back(seconds(clock().now() - step_began_));
  if (evaluations() != nullptr) evaluate();
  session_.leave_if_wished();
}

PacedStep Trainer::Impl::compute(const BatchRef& batch, double& loss) {
  const std::uint64_t job_seed = context_.plan.options.seed;
  const auto draw = context_.plan.imbalance.draw(job_seed, place_, batch.step);
  const auto computes = [&] {
    loss = context_.task.forward_backward(batch.samples, random_bits(job_seed, kBatchStream, batch.sequence));
  };
  const auto ends = [&] { session_.end_backward(text("step ", batch.step, " (batch ", batch.sequence, ")")); };
  const auto has_waited = [&] { return session_.waited_for_layers(); };
  pacer_.begin();
  if (input_) input_->next();
  session_.begin_step(batch.samples.size(), pass_.waited() + waited_);
  return pass_.run({computes, ends, has_waited, session_.brings_by_layer()}, batch.units, draw);
}

/// Ranks that move their own weights may be far from the next round of all: the number of the batch in the whole job
/// says how far the job is.
void Trainer::Impl::moves_by_itself(const BatchRef& batch) {
  reached_ = std::max(reached_, batch.sequence);
  replica_.set_lr_factor(context_.plan.lr.factor(reached_, context_.plan.options.ranks));
  context_.page.applied(reached_, next_round_);
}

void Trainer::Impl::evaluate() {
  if (evaluations_->copies_replica(reached_)) session_.bring_weights();
  evaluations_->after_step(reached_, seconds(since_start(clock().now())));
}

void Trainer::Impl::require_going_on() const {
  if (context_.page.stopped()) throw Failure({Errc::lost_peer, "another rank has ended the job"});
}

void Trainer::Impl::note_round(Round round, const Policy& policy, const RoundHeader& header) {
  next_round_ = round + 1;
  applied_ += header.batches;
  reached_ = std::max(reached_, applied_);
  const auto book = [&](const RoundHeader& by_number) {
    ledger_.add(round, policy.encode(), by_number, seconds(clock().now() - start_));
  };
  if (members_change()) {
    ledger_.grow(session_.num_members());
    book(session_.by_number(round, header, ledger_.ranks()));
  } else if (is_first()) {
    book(header);
  }
}

void Trainer::Impl::note_passed(const RoundResult& result) {
  for (const PassedRound& passed : result.passed) {
    if (passed.round >= next_round_) note_round(passed.round, passed.policy, passed.header);
  }
}

void Trainer::Impl::before(const RoundResult& result) {
  note_passed(result);
  replica_.set_lr_factor(context_.plan.lr.factor(reached_, context_.plan.options.ranks));
}

void Trainer::Impl::after(const RoundResult& result) {
  const RoundHeader& header = *result.header;
  const TimePoint now = clock().now();
  note_passed(result);
  note_round(result.round, result.policy, header);
  ++rounds_applied_;
  if (!result.empty()) last_applied_ = now;
  if (files_) files_->trace(result, now);
  context_.page.applied(applied_, next_round_);
  sync_points_.after_round(result, applied_);
  const bool all_equal = result.policy.kind == Policy::Kind::full || session_.recipe().averages_gradients();
  if (Evaluations* const all = evaluations(); all != nullptr && all_equal)
    all->after_average(applied_, seconds(since_start(now)));
}

void Trainer::Impl::take_state(const std::string& state) {
  const JobProgress progress = take_over_account(state, *members_, ledger_);
  applied_ = progress.applied, reached_ = progress.reached, next_round_ = progress.next_round;
  sync_points_.take_over(applied_);
  if (progress.elapsed > Duration(0)) context_.page.started(clock().now() - progress.elapsed);  // unless it knows
}

Traffic Trainer::Impl::traffic() {
  const Traffic sent = session_.traffic();
  const auto bodies =
      static_cast<std::uint64_t>(std::llround(context_.body_scale * static_cast<double>(sent.body_bytes)));
  return {.messages = sent.messages, .body_bytes = bodies, .bytes = sent.bytes - sent.body_bytes + bodies};
}

void Trainer::Impl::record() {
  if (!files_ || recorded_) return;
  step_.waited = pass_.waited() + (clock().now() - arrived_);
  step_.rounds_applied = std::exchange(rounds_applied_, 0);
  const Traffic now = traffic();
  const Traffic sent = now.since(std::exchange(recorded_traffic_, now));
  step_.messages = sent.messages;
  step_.bytes = sent.bytes;
  files_->record(step_);
  if (members_change()) files_->flush_records();  // they outlive this rank
  recorded_ = true;
}

double Trainer::Impl::write_records() {
  record();
  if (files_) files_->flush_records();
  return seconds(since_start(clock().now()));
}

void Trainer::Impl::trace(TimePoint begin) {
  if (!files_) return;
  files_->trace(step_, begin, waited_);
  if (OrderedGradients* const ordered = session_.recipe().ordered()) {
    for (const TensorTimes& tensor : ordered->take_timeline()) files_->trace(tensor);
  }
}

void Trainer::Impl::note_loss(double loss) {
  const std::uint64_t width = std::max<std::uint64_t>(1, context_.plan.total_batches / kLossBins);
  if (report_.losses.empty() || reached_ / width > report_.losses.back().batches / width) {
    report_.losses.push_back({.seconds = seconds(clock().now() - start_), .batches = reached_});
  }
  LossBin& bin = report_.losses.back();
  bin.sum += loss;
  ++bin.count;
}

void Trainer::Impl::look_at_members() {
  if (!members_) return;
  const std::string line = members_->look(seconds(since_start(clock().now())));
  if (is_first() && !line.empty()) context_.page.tell(line);
}

RoundTotals Trainer::Impl::totals(const Session::Comparison& last) {
  ledger_.close();
  // The last round takes everything. What lost members have made is not known: each batch is to be applied once.
  const std::uint64_t made = members_ ? members_->to_apply(batches_before(context_)) : last.deposits;
  ledger_.set_deposits(made, 0, last.counts);
  RoundTotals totals = totals_of(ledger_, next_round_, members().host_names());
  if (members_) totals.members = members_->figures(session_.batches_by_number(ledger_.ranks()));
  return totals;
}

void Trainer::Impl::report_steps() {
  if (step_seconds_.empty()) return;
  report_.step_p50 = quantile(step_seconds_, 0.5);
  report_.step_p99 = quantile(step_seconds_, 0.99);
  const OrderedGradients* const ordered = session_.recipe().ordered();
  if (ordered == nullptr) return;
  report_.ordering = RankOrdering{.statistics = ordered->statistics(),
                                  .steps = step_seconds_.size(),
                                  .step_p50 = report_.step_p50,
                                  .step_p99 = report_.step_p99,
                                  .input = input_ ? input_->burnt() : Duration(0)};
  meter_->read(*report_.ordering, context_.rank.clock_offset());
}

void Trainer::Impl::end() {
  report_steps();
  report_.lines = line_counts(session_.recipe().grid().get());
  report_.sent = traffic().since(traffic_before_);
  report_.seconds = seconds(last_applied_ - start_);
  report_.compute_share = pacer_.real_compute_share();
  const Session::Comparison last = sync_points_.finish();
  report_.identical = sync_points_.identical();
  report_.totals = is_first() ? std::optional(totals(last)) : std::nullopt;  // not of a world that has ended before
  if (Evaluations* const all = evaluations()) {
    all->finish(applied_, report_);
    report_.test = context_.task.score_test();
    report_.training = context_.task.score_training();
  }
  if (files_) {
    files_->flush();
    report_.lost_records = files_->lost();
    report_.why_lost = files_->why_lost();
  }
}

Trainer::Trainer(const TrainerContext& context) : impl_(std::make_unique<Impl>(context)) {}
Trainer::~Trainer() = default;
RankReport Trainer::run() {
  return impl_->run();
}

}  // namespace stretto
