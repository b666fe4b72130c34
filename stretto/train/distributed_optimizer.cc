#include "stretto/train/distributed_optimizer.h"

#include <torch/optim/optimizer.h>

#include <cstdio>
#include <exception>

#include "stretto/base/error.h"
#include "stretto/train/checkpoint.h"
#include "stretto/train/lr_schedule.h"
#include "stretto/train/session.h"

namespace stretto {
namespace {

constexpr std::uint64_t kLocalSteps = 8;

SessionOptions session_options(const DistributedOptions& o, int ranks) {
  if (o.max_lag < 1) throw UsageError(text("max-lag ", o.max_lag, ": expected at least 1"));
  if (o.overlap && o.normalize == Normalize::samples) {
    throw UsageError("overlap with normalize samples: expected another, since step() says the samples only afterwards");
  }
  const Algorithm algorithm = parse_algorithm(o.algorithm, ranks, o.quorum);
  return {.recipe = algorithm.recipe,
          .recipe_options = {.policy = algorithm.policy,
                             .normalize = o.normalize,
                             .order = o.fixed_order ? SumOrder::fixed : SumOrder::arrival,
                             .max_lag = o.max_lag,
                             .seed = o.seed,
                             .local_steps = o.sync_every != 0 ? o.sync_every : kLocalSteps,
                             .overlap = o.overlap},
          .progress_by = o.progress_by,
          .tell = [](Round, const std::string& line) { std::fprintf(stderr, "stretto: %s\n", line.c_str()); }};
}

std::string describe(const DistributedOptions& o) {
  return text(o.algorithm, " quorum=", o.quorum, " max-lag=", o.max_lag, " normalize=", static_cast<int>(o.normalize),
              " fixed=", o.fixed_order, " sync-every=", o.sync_every, " lr-schedule=", o.lr_schedule, " seed=", o.seed,
              " bucket=", o.bucket_bytes);
}

}  // namespace

class DistributedOptimizer::Impl final : public RoundListener {
 public:
  Impl(RankContext& rank, std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
       const DistributedOptions& options)
      : options_(options),
        lr_(LrSchedule::parse(options.lr_schedule)),
        replica_(std::move(model), std::move(optimizer), {.bucket_bytes = options.bucket_bytes}),
        session_(rank.transport(), clock_, replica_, *this, session_options(options, rank.size())),
        ledger_(rank.size()) {
    const Session::Fingerprint fingerprints[] = {
        {"version", text("stretto ", stretto_version(), ", ", replica_.library())},
        {"options", describe(options)},
        {"model", replica_.model_description()},
        {"optimizer", replica_.optimizer_description()}};
    session_.begin(fingerprints);
    set_lr();
    start_ = clock_.now();
    begin_step(Duration(0));
  }

  // A constant rate is the caller's to change.
  void set_lr() {
    if (options_.lr_schedule != "constant") replica_.set_lr_factor(lr_.factor(applied_, session_.ranks()));
  }

  void begin_step(Duration waited) {
    session_.begin_step(1, waited);
    step_began_ = clock_.now();
  }

  int step(std::uint64_t samples) {
    if (ended_) throw UsageError("step() after finish(), or after a failure: the job is over");
    ended_ = true;  // should anything fail here
    session_.set_samples(samples);
    session_.end_backward(text("step ", steps_));
    session_.deposit(clock_.now() - step_began_);
    ++steps_;
    const TimePoint arrived = clock_.now();
    const int rounds = session_.exchange();
    begin_step(clock_.now() - arrived);
    ended_ = false;
    return rounds;
  }

  int finish() {
    if (ended_) throw UsageError("finish() after finish(), or after a failure: the job is over");
    ended_ = true;
    const int rounds = session_.finish();
    compare();
    return rounds;
  }

  void compare() {
    Meeting& meeting = session_.meeting();
    meeting.average_buffers(session_.driver());
    const ReplicaChecksum mine = replica_.checksum();
    const bool moments_too = session_.recipe().averages_gradients();
    const auto all = meeting.gather(session_.driver(), {mine.parameters, moments_too ? mine.optimizer : 0, steps_});
    identical_ = true;
    std::uint64_t made = 0;
    for (const auto& theirs : all) {
      identical_ = identical_ && theirs[0] == all[0][0] && theirs[1] == all[0][1];
      made += theirs[2];
    }
    ledger_.close();
    ledger_.set_deposits(made, 0);
  }

  // In a destructor: nothing may be thrown.
  void end() noexcept {
    if (ended_) return;
    try {
      if (std::uncaught_exceptions() > exceptions_) return session_.abort("an exception has ended this rank's loop");
      if (!session_.finish_within(options_.finish_timeout)) session_.abort("the others did not finish in time");
    } catch (const std::exception& error) {
      std::fprintf(stderr, "stretto: %s\n", error.what());
    }
  }

  void before(const RoundResult&) override { set_lr(); }
  void after(const RoundResult& result) override {
    applied_ += result.header->batches;
    ledger_.add(result.round, result.policy.encode(), *result.header, seconds(clock_.now() - start_));
    if (on_round_) on_round_(*result.header);
  }

  const DistributedOptions options_;
  const LrSchedule lr_;
  const int exceptions_ = std::uncaught_exceptions();  // under way when this was made
  const SteadyClock clock_;
  TorchReplica replica_;
  Session session_;
  Ledger ledger_;
  std::function<void(const RoundHeader&)> on_round_;
  TimePoint start_;
  TimePoint step_began_;
  std::uint64_t steps_ = 0;
  std::uint64_t applied_ = 0;
  bool ended_ = false;  // nothing is left to finish
  bool identical_ = false;
};

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
int DistributedOptimizer::finish() {
  return impl_->finish();
}
void DistributedOptimizer::on_round(std::function<void(const RoundHeader&)> applied) {
  impl_->on_round_ = std::move(applied);
}
void DistributedOptimizer::on_step(std::function<void()> before) {
  impl_->replica_.on_step(std::move(before));
}
std::uint64_t DistributedOptimizer::batches_applied() const {
  return impl_->applied_;
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
