#include "stretto/train/distributed_optimizer.h"

#include <torch/optim/optimizer.h>

#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/job/files/rank_0_checkpoint.h"
#include "stretto/train/loop/batch_pool.h"
#include "stretto/train/loop/loop_batches.h"
#include "stretto/train/loop/loop_checkpoint.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/loop/torch_state.h"

namespace stretto {

class DistributedOptimizer::Impl {
 public:
  Impl(RankContext& rank, std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
       const DistributedOptions& options);

  int step(std::uint64_t samples);
  Batches batches(std::uint64_t samples, int batch, const BatchesOptions& options);
  void follow(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every);
  bool save(const std::string& folder);
  bool load(const std::string& folder);

 private:
  friend class DistributedOptimizer;

  void explain_mistakes();

  TorchReplica replica_;
  OwnLoop loop_;
  FollowedSchedulers schedulers_;
  LoopBatches batches_;
  bool explained_rate_ = false, explained_gradient_ = false;
};

DistributedOptimizer::Impl::Impl(RankContext& rank, std::shared_ptr<torch::nn::Module> model,
                                 std::shared_ptr<torch::optim::Optimizer> optimizer, const DistributedOptions& options)
    : replica_(std::move(model), std::move(optimizer),
               {.bucket_bytes = options.bucket_bytes, .clip_norm = options.clip_norm}),
      loop_(rank, replica_, options,
            {.computed = [this] { explain_mistakes(); },
             .deposited = [this] { batches_.deposited(); },
             .applied = [this](std::uint64_t batches) { schedulers_.applied(batches); }}),
      schedulers_(replica_.optimizer()),
      batches_(rank, loop_.session().meeting()) {
  loop_.begin();
  loop_.watch_options();
  loop_.begin_step();
}

int DistributedOptimizer::Impl::step(std::uint64_t samples) {
  const int rounds = loop_.step(samples);
  loop_.begin_step();
  return rounds;
}

// ---- learning rates, and what is easily got wrong ----

void DistributedOptimizer::Impl::follow(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every) {
  if (scheduler == nullptr) throw UsageError("follow(): the scheduler is null");
  if (loop_.options().lr_schedule != "constant") {
    throw UsageError(text("follow() beside lr-schedule '", loop_.options().lr_schedule, "': expected one of the two"));
  }
  if (loop_.stepped()) throw UsageError("follow() after step(): expected before the first");
  if (loop_.session().members_change()) throw UsageError("follow() where members of the job change: not yet");
  schedulers_.add(std::move(scheduler), every != 0 ? every : static_cast<std::uint64_t>(loop_.session().ranks()));
  loop_.take_options();
}

// Once each. Every rank runs the same loop: one of them says it.
void DistributedOptimizer::Impl::explain_mistakes() {
  if (!explained_gradient_ && replica_.gradients_changed()) {
    explained_gradient_ = true;
    loop_.tell(
        "a gradient was changed between backward() and step(): it is this rank's own, not the average; to clip the "
        "average use DistributedOptions::clip_norm, or on_step()");
  }
  const bool eager = loop_.session_options().recipe_options.policy.kind != Policy::Kind::full;
  if (!explained_rate_ && eager && loop_.options_changed()) {
    explained_rate_ = true;
    loop_.tell(
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
  if (loop_.stepped()) throw UsageError("batches() after step(): expected before the first");
  if (o.bucketed == o.lengths.empty()) {
    throw UsageError(o.bucketed ? "bucketed without lengths: expected those of all samples"
                                : "lengths without bucketed: they have no effect; expected both");
  }
  Session& session = loop_.session();
  const RecipeInfo& recipe = *loop_.session_options().recipe;
  std::string data = o.data;
  if (data.empty()) {
    data = session.members_change() ? "shared" : default_data(recipe, loop_.session_options().recipe_options.policy);
  }
  const auto pool = batches_.make(session.driver(),
                                  {.samples = samples,
                                   .batch = batch,
                                   .ranks = session.most_ranks(),
                                   .steps = o.steps,
                                   .epochs = o.steps != 0 ? 0 : o.epochs,
                                   .seed = o.seed + loop_.environment().seed,
                                   .lengths = o.lengths,
                                   .bucketed = o.bucketed,
                                   .labels = o.labels,
                                   .labels_a_rank = labels_a_rank(data)},
                                  parse_sharing(data));
  pool->at_end([this] {
    if (loop_.drain()) return true;
    loop_.begin_step();
    return false;
  });
  return Batches(pool);
}

bool DistributedOptimizer::Impl::save(const std::string& folder) {
  if (!loop_.quiet()) {
    throw UsageError("save(): gradients are pending; expected inside on_full_round(), or after finish()");
  }
  Meeting& meeting = loop_.session().meeting();
  Driver& driver = loop_.session().driver();
  LoopCheckpoint c;
  c.replica = identity_of(replica_);
  c.ranks = static_cast<std::uint64_t>(loop_.session().ranks());
  c.batches = loop_.applied();
  c.checksum = replica_.checksum();
  c.algorithm = loop_.session_options().recipe->name;
  const auto all = meeting.gather(driver, {c.checksum.parameters, loop_.steps()});
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
  if (loop_.session().rank() == 0)
    written = write_loop_checkpoint(folder, c, replica_, loop_.session().recipe().state());
  if (!written) loop_.tell(text("no checkpoint after ", loop_.applied(), " batches: ", written.error().message));
  return meeting.gather(driver, {written.ok() ? 1u : 0u})[0][0] != 0;
}

bool DistributedOptimizer::Impl::load(const std::string& folder) {
  if (loop_.steps() != 0 || batches_.made()) throw UsageError("load(): expected before batches() and the first step()");
  Session& session = loop_.session();
  Meeting& meeting = session.meeting();
  Driver& driver = session.driver();
  if (!rank_0_has_checkpoint(meeting, driver, folder)) return false;
  CheckpointPaths paths;
  const LoopCheckpoint c = loop_checkpoint_from_json(meeting.broadcast_text(
      driver, [&] { return to_json(read_loop_checkpoint(folder, identity_of(replica_), session.ranks(), paths)); }));
  const bool same_algorithm = c.algorithm == loop_.session_options().recipe->name;
  load_states(meeting, driver, folder, paths, c.checksum, replica_, same_algorithm ? &session.recipe() : nullptr);
  const auto mine = static_cast<std::size_t>(session.rank());
  loop_.go_on_from(c.batches, c.steps[mine]);
  set_random_state(c.random[mine]);
  schedulers_.restore(c.scheduler_steps);
  batches_.restore(c);
  loop_.take_options();
  return true;
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
  impl_->loop_.end();
}

// Not to none: the gradients lie where they will be handed over from.
void DistributedOptimizer::zero_grad() {
  impl_->replica_.optimizer().zero_grad(/*set_to_none=*/false);
}

int DistributedOptimizer::step(std::uint64_t samples) {
  return impl_->step(samples);
}
int DistributedOptimizer::pass() {
  const int rounds = impl_->loop_.pass();
  impl_->loop_.begin_step();
  return rounds;
}
void DistributedOptimizer::together(const std::function<void()>& work) {
  OwnLoop& loop = impl_->loop_;
  loop.meet();
  loop.session().telling(work);
  loop.part();
  loop.begin_step();
}
void DistributedOptimizer::accumulate(bool more) {
  impl_->replica_.accumulate(more);
}
int DistributedOptimizer::finish(Others others) {
  return impl_->loop_.finish(others);
}
void DistributedOptimizer::leave() {
  impl_->loop_.leave();
}
Batches DistributedOptimizer::batches(std::uint64_t samples, int batch, BatchesOptions options) {
  return impl_->batches(samples, batch, options);
}
void DistributedOptimizer::follow(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every) {
  impl_->follow(std::move(scheduler), every);
}
void DistributedOptimizer::on_round(std::function<void(const RoundHeader&)> applied) {
  impl_->loop_.on_round([applied = std::move(applied)](const RoundResult& result) { applied(*result.header); });
}
void DistributedOptimizer::on_step(std::function<void()> before) {
  impl_->replica_.on_step(std::move(before));
}
void DistributedOptimizer::on_full_round(std::function<void()> held) {
  if (impl_->loop_.options().full_every == 0) {
    throw UsageError("on_full_round() without DistributedOptions::full_every: expected after how many batches");
  }
  impl_->loop_.on_full_round(std::move(held));
}
bool DistributedOptimizer::save(const std::string& folder) {
  return impl_->save(folder);
}
bool DistributedOptimizer::load(const std::string& folder) {
  return impl_->load(folder);
}
void DistributedOptimizer::report() const {
  impl_->loop_.report();
}
void DistributedOptimizer::record(const std::string& name, double value) {
  if (impl_->loop_.session().rank() == 0) impl_->loop_.reporter().record(name, value);
}

std::uint64_t DistributedOptimizer::batches_applied() const {
  return impl_->loop_.applied();
}
std::uint64_t DistributedOptimizer::steps() const {
  return impl_->loop_.steps();
}
const Ledger& DistributedOptimizer::ledger() const {
  return impl_->loop_.ledger();
}
bool DistributedOptimizer::replicas_identical() const {
  return impl_->loop_.identical();
}
TorchReplica& DistributedOptimizer::replica() {
  return impl_->replica_;
}

}  // namespace stretto
