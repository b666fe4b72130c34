#include "stretto/train/distributed_optimizer.h"

#include <torch/optim/optimizer.h>

#include <atomic>
#include <optional>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/job/files/rank_0_checkpoint.h"
#include "stretto/train/loop/batch_pool.h"
#include "stretto/train/loop/loop_batches.h"
#include "stretto/train/loop/loop_checkpoint.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/loop/states/registered_states.h"
#include "stretto/train/loop/states/torch_state.h"

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
  std::uint64_t batches_applied() const { return loop_ ? loop_->applied() : loaded_ ? loaded_->batches : 0; }
  /// Any thread, also while another one makes the loop.
  void leave();

 private:
  friend class DistributedOptimizer;

  /// What a rank that comes takes over, and what hears of it, is there before it comes: with the first call that asks.
  OwnLoop& come();
  void require_not_come(const std::string& call) const {
    if (loop_ && rank_.changes() != nullptr) throw UsageError(text(call, " after batches(): expected before"));
  }
  void explain_mistakes();
  /// save() where all ranks have come to it, of which the first writes.
  bool write(OwnLoop& loop, const std::string& folder);
  /// load() before this rank has come.
  bool load_alone(const std::string& folder);
  void go_on_from_loaded();

  RankContext& rank_;
  const DistributedOptions options_;
  TorchReplica replica_;
  FollowedSchedulers schedulers_;
  RegisteredStates states_;
  std::function<void(const RoundHeader&)> on_round_;
  std::function<void()> on_full_round_;
  std::function<void(const NewMembers&)> on_members_;
  std::optional<OwnLoop> loop_;
  std::atomic<OwnLoop*> there_{nullptr};  // loop_, of a rank that has come
  std::atomic<bool> leaves_{false};
  std::optional<LoopBatches> batches_;  // of loop_
  std::optional<LoopCheckpoint> loaded_;
  std::string loaded_recipe_;  // its state, where it is of loaded_
  bool explained_rate_ = false, explained_gradient_ = false;
};

DistributedOptimizer::Impl::Impl(RankContext& rank, std::shared_ptr<torch::nn::Module> model,
                                 std::shared_ptr<torch::optim::Optimizer> optimizer, const DistributedOptions& options)
    : rank_(rank),
      options_(options),
      replica_(std::move(model), std::move(optimizer),
               {.bucket_bytes = options.bucket_bytes, .clip_norm = options.clip_norm}),
      schedulers_(replica_.optimizer()) {
  states_.add(
      "followed schedulers", [this] { return schedulers_.counts(); },
      [this](const std::string& counts) { schedulers_.take_counts(counts); });
  states_.add(
      "where batches began", [this] { return batches_->start(); },
      [this](const std::string& start) { batches_->take_start(start); });
  if (rank_.changes() == nullptr) (void)come();
}

OwnLoop& DistributedOptimizer::Impl::come() {
  if (loop_) return *loop_;
  loop_.emplace(rank_, replica_, options_,
                LoopHooks{.computed = [this] { explain_mistakes(); },
                          .deposited = [this] { batches_->deposited(); },
                          .applied = [this](std::uint64_t batches, int ranks) { schedulers_.applied(batches, ranks); },
                          .members =
                              [this](const NewMembers& members) {
                                if (on_members_) on_members_(members);
                              },
                          .describe_state = [this] { return states_.describe(); },
                          .state = [this] { return states_.save(); },
                          .take_state = [this](const std::string& saved) { states_.load(saved); }});
  batches_.emplace(rank_, loop_->session());
  loop_->on_round([this](const RoundResult& result) {
    if (on_round_) on_round_(*result.header);
  });
  loop_->on_full_round([this] {
    if (on_full_round_) on_full_round_();
  });
  if (loaded_) go_on_from_loaded();
  loop_->begin();
  loop_->watch_options();
  there_ = &*loop_;
  if (leaves_) loop_->leave();
  loop_->begin_step();
  return *loop_;
}

void DistributedOptimizer::Impl::leave() {
  if (rank_.changes() == nullptr) return come().leave();  // which refuses
  leaves_ = true;
  if (OwnLoop* const loop = there_) loop->leave();
}

int DistributedOptimizer::Impl::step(std::uint64_t samples) {
  // Gradients have a place from then on.
  if (!loop_) throw UsageError("step() before this rank is in the job: expected batches(), or zero_grad(), first");
  const int rounds = loop_->step(samples);
  loop_->begin_step();
  return rounds;
}

// ---- learning rates, and what is easily got wrong ----

void DistributedOptimizer::Impl::follow(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every) {
  if (scheduler == nullptr) throw UsageError("follow(): the scheduler is null");
  if (options_.lr_schedule != "constant") {
    throw UsageError(text("follow() beside lr-schedule '", options_.lr_schedule, "': expected one of the two"));
  }
  if (rank_.changes() != nullptr) {
    require_not_come("follow()");
    return schedulers_.add(std::move(scheduler), every);
  }
  OwnLoop& loop = come();
  if (loop.stepped()) throw UsageError("follow() after step(): expected before the first");
  schedulers_.add(std::move(scheduler), every != 0 ? every : static_cast<std::uint64_t>(loop.session().ranks()));
  loop.take_options();
}

// Once each. Every rank runs the same loop: one of them says it.
void DistributedOptimizer::Impl::explain_mistakes() {
  if (!explained_gradient_ && replica_.gradients_changed()) {
    explained_gradient_ = true;
    loop_->tell(
        "a gradient was changed between backward() and step(): it is this rank's own, not the average; to clip the "
        "average use DistributedOptions::clip_norm, or on_step()");
  }
  const bool eager = loop_->session_options().recipe_options.policy.kind != Policy::Kind::full;
  if (!explained_rate_ && eager && loop_->options_changed()) {
    explained_rate_ = true;
    loop_->tell(
        "the optimizer's options were changed in the loop, as by scheduler->step(): under an eager algorithm ranks "
        "make different numbers of steps, and replicas part; hand the scheduler to follow(), which counts batches "
        "applied");
  }
}

// ---- batches and checkpoints ----

Batches DistributedOptimizer::Impl::batches(std::uint64_t samples, int batch, const BatchesOptions& o) {
  OwnLoop& loop = come();
  if (batches_->made()) {
    throw UsageError("batches() a second time: one pool has all passes over the data (BatchesOptions::epochs)");
  }
  if (loop.stepped()) throw UsageError("batches() after step(): expected before the first");
  if (o.bucketed == o.lengths.empty()) {
    throw UsageError(o.bucketed ? "bucketed without lengths: expected those of all samples"
                                : "lengths without bucketed: they have no effect; expected both");
  }
  Session& session = loop.session();
  const RecipeInfo& recipe = *loop.session_options().recipe;
  std::string data = o.data;
  if (data.empty()) {
    data = session.members_change() ? "shared" : default_data(recipe, loop.session_options().recipe_options.policy);
  }
  const auto pool = batches_->make({.samples = samples,
                                    .batch = batch,
                                    .ranks = session.most_ranks(),
                                    .steps = o.steps,
                                    .epochs = o.steps != 0 ? 0 : o.epochs,
                                    .seed = o.seed + loop.environment().seed,
                                    .lengths = o.lengths,
                                    .bucketed = o.bucketed,
                                    .labels = o.labels,
                                    .labels_a_rank = labels_a_rank(data)},
                                   parse_sharing(data));
  pool->at_end([&loop] {
    if (loop.drain()) return true;
    loop.begin_step();
    return false;
  });
  return Batches(pool);
}

bool DistributedOptimizer::Impl::save(const std::string& folder) {
  OwnLoop& loop = come();
  if (!loop.quiet()) {
    throw UsageError("save(): gradients are pending; expected inside on_full_round(), or after finish()");
  }
  bool written = false;
  if (loop.has_parted() || !loop.session().unless_cut_off([&] { written = write(loop, folder); })) {
    loop.tell(text("no checkpoint after ", loop.applied(), " batches: the members of the job have changed meanwhile"));
  }
  return written;
}

bool DistributedOptimizer::Impl::write(OwnLoop& loop, const std::string& folder) {
  const bool members_change = loop.session().members_change();
  Meeting& meeting = loop.session().meeting();
  Driver& driver = loop.session().driver();
  LoopCheckpoint c;
  c.replica = identity_of(replica_);
  c.ranks = static_cast<std::uint64_t>(loop.session().ranks());
  c.any_ranks = members_change || (loaded_ && loaded_->any_ranks);
  c.batches = loop.applied();
  c.checksum = replica_.checksum();
  c.algorithm = loop.session_options().recipe->name;
  const auto all = meeting.gather(driver, {c.checksum.parameters, loop.steps()});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!members_change) c.steps.push_back(all[rank][1]);
    if (all[rank][0] != all[0][0]) {
      throw Failure({Errc::bad_input, text("save(): the replica of rank ", rank, " differs from that of rank 0"),
                     static_cast<int>(rank)});
    }
  }
  c.scheduler_steps = schedulers_.steps();
  c.scheduler_batches = schedulers_.batches();
  if (!members_change) c.random = meeting.gather_lists(driver, random_state());
  batches_->save_to(c);
  Result<void> written;
  if (loop.session().rank() == 0) written = write_loop_checkpoint(folder, c, replica_, loop.session().recipe().state());
  if (!written) loop.tell(text("no checkpoint after ", loop.applied(), " batches: ", written.error().message));
  return meeting.gather(driver, {written.ok() ? 1u : 0u})[0][0] != 0;
}

bool DistributedOptimizer::Impl::load_alone(const std::string& folder) {
  require_not_come("load()");
  if (!has_checkpoint(folder)) return false;
  CheckpointPaths paths;
  LoopCheckpoint c = read_loop_checkpoint(folder, identity_of(replica_), std::nullopt, paths);
  const auto content = [&](const std::string& path) {
    std::string all = path.empty() ? std::string() : read_whole_file(path, FileContent::bytes).or_throw();
    if (path == paths.recipe) loaded_recipe_ = all;
    return all;
  };
  load_states(content, folder, paths, c.checksum, replica_, nullptr);
  c.scheduler_batches.resize(c.scheduler_steps.size(), c.batches);
  schedulers_.restore(c.scheduler_steps, c.scheduler_batches);
  loaded_ = std::move(c);
  return true;
}

// What this rank has loaded is taken over by all where it is the first of the job, and counts for nothing where that is
// under way.
void DistributedOptimizer::Impl::go_on_from_loaded() {
  const bool same_algorithm = loaded_->algorithm == loop_->session_options().recipe->name;
  if (same_algorithm && !loaded_recipe_.empty()) loop_->session().recipe().set_state(loaded_recipe_);
  loop_->go_on_from(loaded_->batches, 0);
  batches_->restore(*loaded_);
}

bool DistributedOptimizer::Impl::load(const std::string& folder) {
  if (rank_.changes() != nullptr) return load_alone(folder);
  OwnLoop& loop = come();
  if (loop.steps() != 0 || batches_->made()) throw UsageError("load(): expected before batches() and the first step()");
  Session& session = loop.session();
  Meeting& meeting = session.meeting();
  Driver& driver = session.driver();
  if (!rank_0_has_checkpoint(meeting, driver, folder)) return false;
  CheckpointPaths paths;
  loaded_ = loop_checkpoint_from_json(meeting.broadcast_text(
      driver, [&] { return to_json(read_loop_checkpoint(folder, identity_of(replica_), session.ranks(), paths)); }));
  const LoopCheckpoint& c = *loaded_;
  const bool same_algorithm = c.algorithm == loop.session_options().recipe->name;
  load_states(meeting, driver, folder, paths, c.checksum, replica_, same_algorithm ? &session.recipe() : nullptr);
  const auto mine = static_cast<std::size_t>(session.rank());
  loop.go_on_from(c.batches, c.any_ranks ? 0 : c.steps[mine]);
  if (!c.any_ranks) set_random_state(c.random[mine]);
  schedulers_.restore(c.scheduler_steps, c.scheduler_batches);
  batches_->restore(c);
  loop.take_options();
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
  if (impl_->loop_) impl_->loop_->end();
}

// Not to none: the gradients lie where they will be handed over from.
void DistributedOptimizer::zero_grad() {
  (void)impl_->come();
  impl_->replica_.optimizer().zero_grad(/*set_to_none=*/false);
}

int DistributedOptimizer::step(std::uint64_t samples) {
  return impl_->step(samples);
}
int DistributedOptimizer::pass() {
  OwnLoop& loop = impl_->come();
  const int rounds = loop.pass();
  loop.begin_step();
  return rounds;
}
void DistributedOptimizer::together(const std::function<void()>& work) {
  OwnLoop& loop = impl_->come();
  loop.meet();
  loop.session().telling([&] { (void)loop.session().unless_cut_off([&] { work(); }); });
  loop.part();
  loop.begin_step();
}
void DistributedOptimizer::accumulate(bool more) {
  impl_->replica_.accumulate(more);
}
int DistributedOptimizer::finish(Others others) {
  return impl_->come().finish(others);
}
void DistributedOptimizer::leave() {
  impl_->leave();
}
void DistributedOptimizer::register_state(std::string name, std::function<std::string()> save,
                                          std::function<void(const std::string&)> load) {
  impl_->require_not_come("register_state()");
  impl_->states_.add(std::move(name), std::move(save), std::move(load));
}
void DistributedOptimizer::on_members(std::function<void(const NewMembers&)> began) {
  impl_->on_members_ = std::move(began);
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
  impl_->come().report();
}
void DistributedOptimizer::record(const std::string& name, double value) {
  if (impl_->come().session().rank() == 0) impl_->come().reporter().record(name, value);
}

std::uint64_t DistributedOptimizer::batches_applied() const {
  return impl_->batches_applied();
}
std::uint64_t DistributedOptimizer::steps() const {
  return impl_->loop_ ? impl_->loop_->steps() : 0;
}
const Ledger& DistributedOptimizer::ledger() const {
  return impl_->come().ledger();
}
bool DistributedOptimizer::replicas_identical() const {
  return impl_->loop_ && impl_->loop_->identical();
}
TorchReplica& DistributedOptimizer::replica() {
  return impl_->replica_;
}

}  // namespace stretto
