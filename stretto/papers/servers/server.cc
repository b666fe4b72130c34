#include "stretto/papers/servers/server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/papers/servers/parameter_server.h"
#include "stretto/papers/servers/server_options.h"
#include "stretto/train/recipes/full_rounds.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

ServerOptions server_options(ServerMode mode, const RecipeOptions& options) {
  return server_options(mode, options.argument, options.algorithm);
}

void check(ServerMode mode, const RecipeOptions& options, int ranks) {
  check_server_options(server_options(mode, options), ranks);
  if (options.normalize == Normalize::samples) {
    throw UsageError(
        "normalize samples with a parameter server: expected ranks or contributors, since a server is "
        "not told of samples");
  }
  check_state_average(options, options.local_steps < kMeetsAtTheEnd || options.full_every != 0, "sync-every 10");
}

SgdRule rule_of(const Replica& replica) {
  if (const auto rule = replica.sgd_rule()) return *rule;
  std::string optimizer = replica.optimizer_description();
  std::replace(optimizer.begin(), optimizer.end(), '\n', ' ');
  throw UsageError(text("a parameter server with the optimizer ", optimizer,
                        "expected SGD with the same options for all parameters, without dampening and Nesterov's "
                        "momentum, since the servers move the weights by that rule alone"));
}

/// The weights are moved where the gradients are added up.
void check_types(const Replica& replica) {
  for (std::size_t b = 0; b < replica.buckets().size(); ++b) {
    const DataType gradients = replica.buckets()[b].type, parameters = replica.parameter_buckets()[b].type;
    if (gradients == parameters) continue;
    throw UsageError(text("a parameter server with bucket ", b, " of ", name_of(parameters), " parameters and ",
                          name_of(gradients), " gradients: expected one type for both, or another algorithm"));
  }
}

using Memory = std::vector<std::vector<std::byte>>;  // a bucket each

Memory memory_of_buckets(const std::vector<BucketSpec>& buckets) {
  Memory all;
  for (const BucketSpec& bucket : buckets) all.emplace_back(bucket.count * size_of(bucket.type));
  return all;
}

/// What the collective uses of a recipe. It belongs to both, since after a failure the engine may go on to use it when
/// the recipe is gone.
struct ServerMemory {
  explicit ServerMemory(const std::vector<BucketSpec>& specs)
      : buckets(specs), next(memory_of_buckets(specs)), velocities(specs.size()) {
    add_set();
  }

  void add_set() { sets.push_back(std::make_unique<Contribution>(buckets, static_cast<int>(sets.size()))); }

  /// On the thread that steps the engine: moves the weights of a bucket that is served here.
  void move(int bucket, std::span<std::byte> to, std::span<const std::byte> from, std::span<std::byte> sum,
            int divisor) {
    if (sum.empty()) {  // no gradient: no step either, which the velocity would make
      std::memmove(to.data(), from.data(), to.size());
      return;
    }
    const auto b = static_cast<std::size_t>(bucket);
    if (momentum != 0) velocities[b].resize(to.size());
    descend(buckets[b].type, to, from, velocities[b], sum, momentum, divisor);
  }

  const std::vector<BucketSpec> buckets;
  double momentum = 0;
  std::vector<std::unique_ptr<Contribution>> sets;  // gradients; two: those of the step before may not have left
  Memory next;                                      // the weights that come
  Memory velocities;  // of the buckets served here; the engine's thread, between phases the application's
};

class Server final : public Recipe, private WeightsByBucket {
 public:
  Server(const RecipeContext& context, const ServerOptions& options)
      : context_(context),
        num_buckets_(static_cast<int>(context.replica.buckets().size())),
        layerwise_(is_layerwise(context.options)),
        meet_every_(
            std::min(context.options.local_steps, own_steps(context.options.full_every, context.engine.size()))),
        trains_(context.engine.rank() < options.num_workers(context.engine.size())),
        memory_(std::make_shared<ServerMemory>(context.replica.buckets())),
        server_(make_server(context, options)),
        waits_{.for_ranks_ahead = options.mode == ServerMode::k_sync,
               .for_ranks_behind = options.staleness > 0 || meet_every_ < kMeetsAtTheEnd},
        statistics_(context),
        rounds_(context, velocities(), FullRounds::StepCount::told),
        on_their_way_(context.replica.buckets().size()) {
    if (layerwise_) context_.replica.on_bucket_ready([this](int bucket) { hand_over(bucket); });
  }
  ~Server() override { context_.replica.on_bucket_ready(nullptr); }

  bool takes_batches() const override { return trains_; }

  void begin_step(const DepositInfo&) override {
    if (!trains_) {
      throw UsageError(text("rank ", context_.engine.rank(),
                            " is a dedicated server: expected no batches here, and finish() at once"));
    }
    begin();
    non_finite_.reset();
    pushed_ = 0;
    if (by_bucket_) set_ = 1 - set_;
    attached_.clear();
    for (int b = 0; b < num_buckets_; ++b) attached_.push_back(gradients().bucket(b));
    context_.replica.attach(set_, attached_);
  }

  WeightsByBucket* weights_by_bucket() override { return this; }
  bool bring_by_bucket() override {
    by_bucket_ = layerwise_ && trains_;
    if (by_bucket_) memory_->add_set();
    return by_bucket_;
  }

  Result<int> bring(int bucket, Driver& driver, TimePoint deadline) override {
    if (!on_their_way_[static_cast<std::size_t>(bucket)]) return 0;
    if (const auto here = server_->wait(bucket, driver, deadline); !here) return here.error();
    take_weights(bucket);
    return 0;
  }

  std::optional<std::string> end_backward() override {
    context_.replica.end_backward();  // layer-wise: hands over what is left
    for (int b = 0; b < num_buckets_ && !layerwise_ && !non_finite_; ++b) {
      non_finite_ = context_.replica.find_non_finite(b);
    }
    return non_finite_;
  }

  void deposit(const DepositInfo& step) override {
    for (int b = 0; b < num_buckets_ && !layerwise_; ++b) hand_over(b);
    rounds_.note_step(step);
    meeting_due_ = rounds_.steps() == meet_every_;
  }

  void pass(const DepositInfo& step) override {
    if (pushed_ != 0) {
      throw UsageError(
          "pass() with layerwise after gradients of the batch have gone to the servers: expected layerwise no where a "
          "rank may drop a batch");
    }
    for (int b = 0; b < num_buckets_; ++b) {
      const auto i = static_cast<std::size_t>(b);
      server_->pass(b, memory_->next[i]);
      on_their_way_[i] = true;
    }
    pushed_ = num_buckets_;
    rounds_.note_pass(step);
    meeting_due_ = rounds_.steps() == meet_every_;
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    if (by_bucket_ && !meeting_due_) {  // the next pass waits
      pushed_ = 0;
      if (const auto failed = server_->failure()) return *failed;
      return 0;
    }
    if (const auto here = server_->wait(driver, deadline); !here) return here.error();
    if (std::exchange(pushed_, 0) == num_buckets_) take_weights();
    if (!meeting_due_) return 0;
    Result<int> rounds = meet(driver, deadline);
    if (rounds) meeting_due_ = false;
    return rounds;
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    begin();
    if (const auto failed = complete_step()) return *failed;
    if (const auto here = server_->wait(driver, deadline); !here) return here.error();
    while (!ended_) {
      if (auto rounds = meet(driver, deadline); !rounds) return rounds;
    }
    return rounds_.finish(driver, deadline);
  }

  Result<bool> drain(Driver& driver) override {
    begin();
    if (const auto failed = complete_step()) return *failed;
    while (!ended_) {
      auto met = try_meet(driver);
      if (!met || !*met) return met;
    }
    return rounds_.drain(driver);
  }

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {server_, rounds_.collective()}; }
  Round rounds() const override { return rounds_.collective()->handed(); }
  RecipeMemory memory() const override {
    RecipeMemory all = memory_of(*rounds_.collective());
    all.bytes += server_->memory_bytes() + (by_bucket_ ? 3 : 2) * bytes_of(memory_->next);
    all.parts += "; gradients, weights that come, and what this rank serves";
    return all;
  }
  std::string state() const override { return state_; }
  void set_state(const std::string& state) override {
    if (state.size() != bytes_of(memory_->next)) {
      throw Failure(
          {Errc::bad_input, text("momentum of ", state.size(), " bytes, expected ", bytes_of(memory_->next))});
    }
    const auto* from = reinterpret_cast<const std::byte*>(state.data());
    for (std::size_t b = 0; b < memory_->velocities.size(); ++b) {
      const std::size_t bytes = memory_->next[b].size();
      memory_->velocities[b].assign(from, from + bytes);
      from += bytes;
    }
    state_ = state;
  }
  OwnCounts own_counts() const override {
    const ServerCounts counts = server_->counts();
    return {.buckets = static_cast<std::uint64_t>(num_buckets_),
            .taken = counts.ages.count(),
            .dropped = counts.dropped,
            .ages = counts.ages};
  }
  StepWaits waits() const override { return waits_; }
  bool averages_gradients() const override { return false; }

 private:
  std::shared_ptr<ParameterServer> make_server(const RecipeContext& context, const ServerOptions& options) {
    memory_->momentum = rule_of(context.replica).momentum;
    const int step = options.mode == ServerMode::k_sync ? options.enough : options.num_workers(context.engine.size());
    const bool of_those_taken = context.options.normalize == Normalize::contributors;
    return std::make_shared<ParameterServer>(
        context.engine, context.replica.buckets(), options,
        [memory = memory_, step, of_those_taken](int bucket, std::span<std::byte> to, std::span<const std::byte> from,
                                                 std::span<std::byte> sum, int pushes) {
          memory->move(bucket, to, from, sum, of_those_taken ? pushes : step);
        });
  }

  static std::uint64_t bytes_of(const Memory& memory) {
    std::uint64_t bytes = 0;
    for (const auto& bucket : memory) bytes += bucket.size();
    return bytes;
  }
  DataType type_of(int bucket) const { return context_.replica.buckets()[static_cast<std::size_t>(bucket)].type; }

  /// What a full round sums: each velocity, which its server alone brings, so that the sum has its bits. Without
  /// momentum nothing.
  FullRounds::Cargo velocities() {
    if (memory_->momentum == 0) {
      return {.buckets = {},
              .load = [](Contribution&, const DepositInfo&) {},
              .unload = [this](Driver& driver, const RoundResult&) { statistics_.run(driver); }};
    }
    const auto load = [this](Contribution& mine, const DepositInfo&) {
      for (int b = 0; b < num_buckets_; ++b) {
        const std::vector<std::byte>& velocity = memory_->velocities[static_cast<std::size_t>(b)];
        if (server_->serves(b) && !velocity.empty()) {
          std::ranges::copy(velocity, mine.bucket(b).begin());
        } else {
          std::ranges::fill(mine.bucket(b), std::byte{0});
        }
      }
    };
    const auto unload = [this](Driver& driver, const RoundResult& result) {
      statistics_.run(driver);
      state_.clear();
      for (const auto& sum : result.buckets) state_.append(reinterpret_cast<const char*>(sum.data()), sum.size());
    };
    return {.buckets = context_.replica.buckets(), .load = load, .unload = unload};
  }

  /// Ends the phase, in which all ranks come to the same weights, with a full round. Timeouts: as Recipe::advance().
  Result<int> meet(Driver& driver, TimePoint deadline) {
    if (!handed_over_) {
      if (const auto settled = server_->settle(driver, deadline, last_weights()); !settled) return settled.error();
      hand_over();
    }
    Result<int> rounds = rounds_.exchange(driver, deadline);
    if (rounds) have_met();
    return rounds;
  }

  Result<bool> try_meet(Driver& driver) {
    if (!handed_over_) {
      auto settled = server_->try_settle(last_weights());
      if (!settled || !*settled) return settled;
      hand_over();
    }
    auto met = rounds_.try_exchange(driver);
    if (met && *met) have_met();
    return met;
  }

  void hand_over() {
    take_weights();
    rounds_.hand_over();
    handed_over_ = true;
  }

  void have_met() {
    handed_over_ = false;
    // A rank that goes on has brought meet_every_ steps.
    ended_ = rounds_.steps_ended() < meet_every_;
    if (!ended_) server_->go_on();
  }

  /// The weights that all ranks have got from rank 0 go to the servers.
  void begin() {
    if (server_->begun()) return;
    std::vector<std::span<const std::byte>> values;
    for (int b = 0; b < num_buckets_; ++b) values.emplace_back(context_.replica.parameters(b));
    server_->begin(values);
  }

  /// Where the last weights of a phase go.
  std::vector<std::span<std::byte>> last_weights() {
    std::vector<std::span<std::byte>> all;
    for (auto& bucket : memory_->next) all.emplace_back(bucket);
    return all;
  }

  /// Of the step under way.
  Contribution& gradients() { return *memory_->sets[static_cast<std::size_t>(set_)]; }

  void hand_over(int bucket) {
    if (layerwise_ && !non_finite_) non_finite_ = context_.replica.find_non_finite(bucket);
    if (non_finite_) return;
    STRETTO_CHECK(!on_their_way_[static_cast<std::size_t>(bucket)], "bucket ", bucket, " was read before it was there");
    const SgdRule rule = rule_of(context_.replica);
    const std::span<std::byte> gradient = gradients().bucket(bucket);
    if (rule.weight_decay != 0) {
      decay_and_scale(type_of(bucket), gradient, context_.replica.parameters(bucket), rule.weight_decay, rule.lr);
    } else {
      scale(type_of(bucket), gradient, gradient, rule.lr);
    }
    // Not into the replica: the backward pass may still read the weights of a bucket whose gradient is ready.
    server_->push(bucket, gradient, memory_->next[static_cast<std::size_t>(bucket)]);
    on_their_way_[static_cast<std::size_t>(bucket)] = true;
    pushed_ = bucket + 1;
  }

  void take_weights(int bucket) {
    const auto b = static_cast<std::size_t>(bucket);
    std::ranges::copy(memory_->next[b], context_.replica.parameters(bucket).begin());
    on_their_way_[b] = false;
  }
  void take_weights() {
    for (int b = 0; b < num_buckets_; ++b) take_weights(b);
  }

  /// A loop that was left between backward pass and step has pushed some buckets, and the servers wait for the rest.
  std::optional<Error> complete_step() {
    if (!layerwise_ || pushed_ == 0 || pushed_ == num_buckets_) return std::nullopt;
    if (const auto non_finite = end_backward()) return Error{Errc::aborted, *non_finite + " is not finite"};
    return std::nullopt;
  }

  const RecipeContext context_;
  const int num_buckets_;
  const bool layerwise_;
  const std::uint64_t meet_every_;  // own steps between two full rounds
  const bool trains_;
  const std::shared_ptr<ServerMemory> memory_;
  const std::shared_ptr<ParameterServer> server_;
  const StepWaits waits_;
  StateAverage statistics_;
  FullRounds rounds_;
  std::optional<std::string> non_finite_;       // the first gradient of this step that is not finite
  int pushed_ = 0;                              // buckets of this step
  bool by_bucket_ = false;                      // exchange() waits before full rounds only
  std::vector<std::span<std::byte>> attached_;  // gradients of the step under way
  int set_ = 0;                                 // of gradients, of the step under way
  std::vector<bool> on_their_way_;              // of each bucket: weights that the replica has not
  bool meeting_due_ = false;                    // before the next step
  bool handed_over_ = false;                    // to the full round under way
  bool ended_ = false;                          // no rank has a batch left
  std::string state_;                           // the velocities at the last full round
};

std::unique_ptr<Recipe> make(ServerMode mode, const RecipeContext& context) {
  check(mode, context.options, context.engine.size());
  check_types(context.replica);
  return std::make_unique<Server>(context, server_options(mode, context.options));
}

std::optional<AlgorithmShape> shape_of(ServerMode mode, const RecipeOptions& options, int ranks) {
  if (options.local_steps < kMeetsAtTheEnd || options.full_every != 0) return std::nullopt;
  const ServerOptions servers = server_options(mode, options);
  const int workers = servers.num_workers(ranks);
  return AlgorithmShape{.exchange = PushShape{workers, [servers, workers](RankSteps& steps, const ShapeJob& job) {
                                                return simulate_servers(servers, steps, workers, job);
                                              }}};
}

}  // namespace

std::unique_ptr<Recipe> make_ps_sync(const RecipeContext& context) {
  return make(ServerMode::sync, context);
}

std::unique_ptr<Recipe> make_ps_async(const RecipeContext& context) {
  return make(ServerMode::async, context);
}

std::unique_ptr<Recipe> make_ssp(const RecipeContext& context) {
  return make(ServerMode::ssp, context);
}

std::unique_ptr<Recipe> make_k_sync(const RecipeContext& context) {
  return make(ServerMode::k_sync, context);
}

bool is_layerwise(const RecipeOptions& options) {
  return options.algorithm.word("layerwise", options.overlap ? "yes" : "no") == "yes";
}

Policy ssp_policy(const std::string& argument, int, int) {
  (void)server_options(ServerMode::ssp, argument, {});
  return Policy::full();
}

Policy k_sync_policy(const std::string& argument, int ranks, int) {
  check_server_options(server_options(ServerMode::k_sync, argument, {}), ranks);
  return Policy::full();
}

void check_ps_sync(const RecipeOptions& options, int ranks) {
  check(ServerMode::sync, options, ranks);
}

void check_ps_async(const RecipeOptions& options, int ranks) {
  check(ServerMode::async, options, ranks);
}

void check_ssp(const RecipeOptions& options, int ranks) {
  check(ServerMode::ssp, options, ranks);
}

void check_k_sync(const RecipeOptions& options, int ranks) {
  check(ServerMode::k_sync, options, ranks);
}

std::optional<AlgorithmShape> ps_sync_shape(const RecipeOptions& options, int ranks) {
  return shape_of(ServerMode::sync, options, ranks);
}

std::optional<AlgorithmShape> ps_async_shape(const RecipeOptions& options, int ranks) {
  return shape_of(ServerMode::async, options, ranks);
}

std::optional<AlgorithmShape> ssp_shape(const RecipeOptions& options, int ranks) {
  return shape_of(ServerMode::ssp, options, ranks);
}

std::optional<AlgorithmShape> k_sync_shape(const RecipeOptions& options, int ranks) {
  return shape_of(ServerMode::k_sync, options, ranks);
}

}  // namespace stretto
