#include "stretto/train/distributed_optimizer.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/version.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/checkpoint_files.h"
#include "stretto/train/job/session.h"
#include "stretto/train/loop/batch_pool.h"
#include "stretto/train/loop/followed_schedulers.h"
#include "stretto/train/loop/loop_batches.h"
#include "stretto/train/loop/loop_checkpoint.h"
#include "stretto/train/loop/loop_environment.h"
#include "stretto/train/loop/loop_reporter.h"
#include "stretto/train/loop/session_options.h"
#include "stretto/train/loop/torch_random.h"
#include "stretto/train/recipes/options/lr_schedule.h"

namespace stretto {

class DistributedOptimizer::Impl final : public RoundListener {
 public:
  Impl(RankContext& rank, std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
       const DistributedOptions& options);

  int step(std::uint64_t samples);
  int finish(Others others);
  void end() noexcept;
  Batches batches(std::uint64_t samples, int batch, const BatchesOptions& options);
  void follow(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every);
  bool save(const std::string& folder);
  bool load(const std::string& folder);
  void report() const;

 private:
  friend class DistributedOptimizer;

  void before(const RoundResult&) override { set_lr(); }
  void after(const RoundResult& result) override;

  template <class Work>
  int telling(Work work);
  void set_lr();
  void begin_step(Duration waited);
  void hold_full_round(const RoundResult& result);
  void explain_mistakes();
  void compare();
  void tell(const std::string& line) const;

  const LoopEnvironment environment_;
  const DistributedOptions options_;  // as the environment wants them
  const LrSchedule lr_;
  const int exceptions_ = std::uncaught_exceptions();  // under way when this was made
  const SteadyClock clock_;
  TorchReplica replica_;
  const SessionOptions session_options_;
  Session session_;
  Ledger ledger_;
  std::function<void(const RoundHeader&)> on_round_;
  std::function<void()> on_full_round_;
  FollowedSchedulers schedulers_;
  LoopBatches batches_;
  LoopReporter reporter_;

  TimePoint start_;
  TimePoint step_began_;
  std::uint64_t steps_ = 0;         // of this rank
  std::uint64_t steps_before_ = 0;  // of them before load()
  std::uint64_t applied_ = 0;       // batches
  std::uint64_t full_at_ = 0;       // batches applied at the last full round that was told of
  std::uint64_t options_hash_ = 0;  // of the wrapped optimizer's options, as the last round left them
  bool quiet_ = true;               // nothing is pending: before the first step, at a full round, and after the last
  bool ended_ = false;              // nothing is left to finish
  bool identical_ = false;
  bool explained_rate_ = false, explained_gradient_ = false;
};

DistributedOptimizer::Impl::Impl(RankContext& rank, std::shared_ptr<torch::nn::Module> model,
                                 std::shared_ptr<torch::optim::Optimizer> optimizer, const DistributedOptions& options)
    : environment_(loop_environment()),
      options_(overridden(options, environment_)),
      lr_(LrSchedule::parse(options_.lr_schedule)),
      replica_(std::move(model), std::move(optimizer),
               {.bucket_bytes = options_.bucket_bytes, .clip_norm = options_.clip_norm}),
      session_options_(session_options(options_, rank.size())),
      session_(rank.engine(), replica_, *this, session_options_),
      ledger_(rank.size()),
      schedulers_(replica_.optimizer()),
      batches_(rank, session_.meeting()),
      reporter_(environment_.out, rank.engine().num_batch_sources_ever(), rank.rank()) {
  const Session::Fingerprint fingerprints[] = {
      {"version", text("stretto ", stretto_version(), ", ", replica_.library())},
      {"options", describe(options_)},
      {"model", replica_.model_description()},
      {"optimizer", replica_.optimizer_description()}};
  session_.begin(fingerprints);
  if (const std::string warning = session_.recipe().warning(); !warning.empty()) tell(warning);
  set_lr();
  options_hash_ = replica_.optimizer_options().hash;
  if (!environment_.out.empty()) session_.meeting().gather(session_.driver(), {});  // the ranks' clocks start together
  start_ = clock_.now();
  begin_step(Duration(0));
}

// A constant rate is the caller's to change.
void DistributedOptimizer::Impl::set_lr() {
  if (options_.lr_schedule != "constant") replica_.set_lr_factor(lr_.factor(applied_, session_.ranks()));
}

void DistributedOptimizer::Impl::begin_step(Duration waited) {
  session_.begin_step(1, waited);
  step_began_ = clock_.now();
}

int DistributedOptimizer::Impl::step(std::uint64_t samples) {
  if (ended_) throw UsageError("step() after finish(), or after a failure: the job is over");
  if (session_.drained()) {
    throw UsageError(
        "step() after finish() of another optimizer, by which this rank has no more batches for any; where every "
        "rank has made as many steps, finish the other with Others::go_on");
  }
  ended_ = true;  // should anything fail here
  return telling([&] {
    quiet_ = false;
    session_.set_samples(samples);
    session_.end_backward(text("step ", steps_));
    explain_mistakes();
    session_.deposit(clock_.now() - step_began_);
    batches_.deposited();
    ++steps_;
    const TimePoint arrived = clock_.now();
    const int rounds = session_.exchange();
    const Duration waited = clock_.now() - arrived;
    reporter_.step(step_began_ - start_, arrived - step_began_, waited);
    begin_step(waited);
    ended_ = false;
    return rounds;
  });
}

// What goes wrong on this rank alone reaches the others.
template <class Work>
int DistributedOptimizer::Impl::telling(Work work) {
  try {
    return work();
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& error) {
    session_.abort(error.what());
    throw;
  }
}

int DistributedOptimizer::Impl::finish(Others others) {
  if (ended_) throw UsageError("finish() after finish(), or after a failure: the job is over");
  ended_ = true;
  return telling([&] {
    quiet_ = false;
    const int rounds = session_.finish(others);
    compare();
    quiet_ = true;
    return rounds;
  });
}

void DistributedOptimizer::Impl::compare() {
  Meeting& meeting = session_.meeting();
  meeting.average_buffers(session_.driver());
  const ReplicaChecksum mine = replica_.checksum();
  const bool moments_too = session_.recipe().averages_gradients();
  Meeting::Numbers numbers{mine.parameters, moments_too ? mine.optimizer : 0, steps_ - steps_before_};
  std::ranges::copy(session_.recipe().own_counts().numbers(), numbers.begin() + 3);
  const auto all = meeting.gather(session_.driver(), numbers);
  std::uint64_t made = 0;
  OwnCounts counts;
  std::string differ;
  int first = -1;
  for (int rank = 0; rank < session_.ranks(); ++rank) {
    const auto& theirs = all[static_cast<std::size_t>(rank)];
    made += theirs[2];
    counts.add(OwnCounts::of(std::span(theirs).subspan<3, OwnCounts::kNumbers>()));
    if (theirs[0] == all[0][0] && theirs[1] == all[0][1]) continue;
    if (first < 0) first = rank;
    differ += text(differ.empty() ? "rank " : ", ", rank, theirs[0] != all[0][0] ? "" : " (the optimizer's state)");
  }
  identical_ = first < 0;
  ledger_.close();
  ledger_.set_deposits(made, 0, counts);
  if (reporter_.wanted()) {
    LoopReport report = report_of(ledger_);
    report.algorithm = options_.algorithm;
    report.replicas_identical = identical_;
    reporter_.finish(report);
  }
  if (!identical_ && !options_.allow_different) {
    throw Failure({Errc::bad_input,
                   text("replicas differ from that of rank 0: ", differ,
                        "; step() alone may move the weights, not that of the wrapped optimizer"),
                   first});
  }
}

// In a destructor: nothing may be thrown.
void DistributedOptimizer::Impl::end() noexcept {
  if (ended_) return;
  try {
    if (std::uncaught_exceptions() > exceptions_) return session_.abort("an exception has ended this rank's loop");
    if (!session_.finish_within(options_.finish_timeout)) return session_.abort("the others did not finish in time");
    session_.meeting().set_timeout(options_.finish_timeout);
    compare();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stretto: %s\n", error.what());
  }
}

void DistributedOptimizer::Impl::after(const RoundResult& result) {
  applied_ += result.header->batches;
  ledger_.add(result.round, result.policy.encode(), *result.header, seconds(clock_.now() - start_));
  schedulers_.applied(applied_);
  if (on_round_) on_round_(*result.header);
  hold_full_round(result);
  options_hash_ = replica_.optimizer_options().hash;
}

void DistributedOptimizer::Impl::hold_full_round(const RoundResult& result) {
  const std::uint64_t every = options_.full_every;
  if (every == 0 || result.policy.kind != Policy::Kind::full || applied_ / every == full_at_ / every) return;
  full_at_ = applied_;
  session_.meeting().average_buffers(session_.driver());
  quiet_ = true;
  if (on_full_round_) on_full_round_();
  quiet_ = false;
}

// ---- learning rates, and what is easily got wrong ----

void DistributedOptimizer::Impl::follow(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every) {
  if (scheduler == nullptr) throw UsageError("follow(): the scheduler is null");
  if (options_.lr_schedule != "constant") {
    throw UsageError(text("follow() beside lr-schedule '", options_.lr_schedule, "': expected one of the two"));
  }
  if (steps_ != steps_before_) throw UsageError("follow() after step(): expected before the first");
  schedulers_.add(std::move(scheduler), every != 0 ? every : static_cast<std::uint64_t>(session_.ranks()));
  options_hash_ = replica_.optimizer_options().hash;
}

void DistributedOptimizer::Impl::tell(const std::string& line) const {
  if (session_.rank() == 0) std::fprintf(stderr, "stretto: %s\n", line.c_str());
}

// Once each. Every rank runs the same loop: one of them says it.
void DistributedOptimizer::Impl::explain_mistakes() {
  if (!explained_gradient_ && replica_.gradients_changed()) {
    explained_gradient_ = true;
    tell(
        "a gradient was changed between backward() and step(): it is this rank's own, not the average; to clip the "
        "average use DistributedOptions::clip_norm, or on_step()");
  }
  const bool eager = session_options_.recipe_options.policy.kind != Policy::Kind::full;
  if (!explained_rate_ && eager && replica_.optimizer_options().hash != options_hash_) {
    explained_rate_ = true;
    tell(
        "the optimizer's options were changed in the loop, as by scheduler->step(): under an eager algorithm ranks "
        "make different numbers of steps, and replicas part; hand the scheduler to follow(), which counts batches "
        "applied");
  }
}

// ---- batches and checkpoints ----

Batches DistributedOptimizer::Impl::batches(std::uint64_t samples, int batch, const BatchesOptions& o) {
  if (batches_.made()) {
    throw UsageError("batches() a second time: one pool has all passes over the data (BatchesOptions::epochs)");
  }
  if (steps_ != steps_before_) throw UsageError("batches() after step(): expected before the first");
  if (o.bucketed == o.lengths.empty()) {
    throw UsageError(o.bucketed ? "bucketed without lengths: expected those of all samples"
                                : "lengths without bucketed: they have no effect; expected both");
  }
  const std::string data =
      o.data.empty() ? std::string(default_data(*session_options_.recipe, session_options_.recipe_options.policy))
                     : o.data;
  return Batches(batches_.make(session_.driver(),
                               {.samples = samples,
                                .batch = batch,
                                .ranks = session_.ranks(),
                                .steps = o.steps,
                                .epochs = o.steps != 0 ? 0 : o.epochs,
                                .seed = o.seed + environment_.seed,
                                .lengths = o.lengths,
                                .bucketed = o.bucketed,
                                .labels = o.labels,
                                .labels_a_rank = labels_a_rank(data)},
                               parse_sharing(data)));
}

bool DistributedOptimizer::Impl::save(const std::string& folder) {
  if (!quiet_) {
    throw UsageError("save(): gradients are pending; expected inside on_full_round(), or after finish()");
  }
  Meeting& meeting = session_.meeting();
  Driver& driver = session_.driver();
  LoopCheckpoint c;
  c.replica = identity_of(replica_);
  c.ranks = static_cast<std::uint64_t>(session_.ranks());
  c.batches = applied_;
  c.checksum = replica_.checksum();
  c.algorithm = session_options_.recipe->name;
  const auto all = meeting.gather(driver, {c.checksum.parameters, steps_});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    c.steps.push_back(all[rank][1]);
    if (all[rank][0] != all[0][0]) {
      throw Failure({Errc::bad_input, text("save(): the replica of rank ", rank, " differs from that of rank 0"),
                     static_cast<int>(rank)});
    }
  }
  c.scheduler_steps = schedulers_.steps();
  c.random = meeting.gather_lists(driver, random_state());
  batches_.save_to(c, driver);
  Result<void> written;
  if (session_.rank() == 0) written = write_loop_checkpoint(folder, c, replica_, session_.recipe().state());
  if (!written) tell(text("no checkpoint after ", applied_, " batches: ", written.error().message));
  return meeting.gather(driver, {written.ok() ? 1u : 0u})[0][0] != 0;
}

bool DistributedOptimizer::Impl::load(const std::string& folder) {
  if (steps_ != 0 || batches_.made()) throw UsageError("load(): expected before batches() and the first step()");
  CheckpointPaths paths;
  std::optional<LoopCheckpoint> c;
  if (has_checkpoint(folder)) c = read_loop_checkpoint(folder, identity_of(replica_), session_.ranks(), paths);
  const auto other = session_.meeting().differing_rank(session_.driver(), {c ? 1u : 0u, c ? c->batches : 0});
  if (other) throw UsageError(text("load(): rank ", *other, " sees another checkpoint in '", folder, "' than rank 0"));
  if (!c) return false;
  replica_.load(paths.replica);
  const ReplicaChecksum loaded = replica_.checksum();
  if (loaded != c->checksum) {
    throw UsageError(
        text("cannot continue from ", paths.replica, ": the weights it holds are not those that were saved"));
  }
  if (!paths.recipe.empty() && c->algorithm == session_options_.recipe->name) {
    session_.recipe().set_state(read_whole_file(paths.recipe).or_throw());
  }
  const auto mine = static_cast<std::size_t>(session_.rank());
  applied_ = full_at_ = c->batches;
  session_.recipe().go_on_after(applied_);
  steps_ = steps_before_ = c->steps[mine];
  set_random_state(c->random[mine]);
  schedulers_.restore(c->scheduler_steps);
  batches_.restore(*c);
  set_lr();
  options_hash_ = replica_.optimizer_options().hash;
  return true;
}

void DistributedOptimizer::Impl::report() const {
  if (session_.rank() != 0) return;
  const double elapsed = ledger_.seconds();
  std::printf("%s on %d ranks: %llu batches applied in %.3g s, %.3g batches/s\n%s", options_.algorithm.c_str(),
              session_.ranks(), static_cast<unsigned long long>(ledger_.batches()), elapsed,
              elapsed > 0 ? static_cast<double>(ledger_.batches()) / elapsed : 0,
              ledger_.to_text([](std::uint64_t word) { return Policy::decode(word).to_string(); }).c_str());
  std::fflush(stdout);
}

// ---- the classes themselves ----

Batches::Iterator& Batches::Iterator::operator++() {
  batch_ = pool_->next();
  return *this;
}

DistributedOptimizer::DistributedOptimizer(RankContext& rank, std::shared_ptr<torch::nn::Module> model,
                                           std::shared_ptr<torch::optim::Optimizer> optimizer,
                                           DistributedOptions options)
    : impl_(std::make_unique<Impl>(rank, std::move(model), std::move(optimizer), options)) {}

DistributedOptimizer::~DistributedOptimizer() {
  impl_->end();
}

// Not to none: the gradients lie where they will be handed over from.
void DistributedOptimizer::zero_grad() {
  impl_->replica_.optimizer().zero_grad(/*set_to_none=*/false);
}

int DistributedOptimizer::step(std::uint64_t samples) {
  return impl_->step(samples);
}
void DistributedOptimizer::accumulate(bool more) {
  impl_->replica_.accumulate(more);
}
int DistributedOptimizer::finish(Others others) {
  return impl_->finish(others);
}
Batches DistributedOptimizer::batches(std::uint64_t samples, int batch, BatchesOptions options) {
  return impl_->batches(samples, batch, options);
}
void DistributedOptimizer::follow(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every) {
  impl_->follow(std::move(scheduler), every);
}
void DistributedOptimizer::on_round(std::function<void(const RoundHeader&)> applied) {
  impl_->on_round_ = std::move(applied);
}
void DistributedOptimizer::on_step(std::function<void()> before) {
  impl_->replica_.on_step(std::move(before));
}
void DistributedOptimizer::on_full_round(std::function<void()> held) {
  if (impl_->options_.full_every == 0) {
    throw UsageError("on_full_round() without DistributedOptions::full_every: expected after how many batches");
  }
  impl_->on_full_round_ = std::move(held);
}
bool DistributedOptimizer::save(const std::string& folder) {
  return impl_->save(folder);
}
bool DistributedOptimizer::load(const std::string& folder) {
  return impl_->load(folder);
}
void DistributedOptimizer::report() const {
  impl_->report();
}
void DistributedOptimizer::record(const std::string& name, double value) {
  if (impl_->session_.rank() == 0) impl_->reporter_.record(name, value);
}

std::uint64_t DistributedOptimizer::batches_applied() const {
  return impl_->applied_;
}
std::uint64_t DistributedOptimizer::steps() const {
  return impl_->steps_;
}
const Ledger& DistributedOptimizer::ledger() const {
  return impl_->ledger_;
}
bool DistributedOptimizer::replicas_identical() const {
  return impl_->identical_;
}
TorchReplica& DistributedOptimizer::replica() {
  return impl_->replica_;
}

}  // namespace stretto
