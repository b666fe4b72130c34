#include "stretto/train/job/run_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/imbalance/pace.h"
#include "stretto/simulate/cluster.h"
#include "stretto/train/options/option_table.h"
#include "stretto/train/recipes/options/ordering_choice.h"

namespace stretto {
namespace {

template <class T>
void require(bool condition, const char* name, const T& value, const char* expected) {
  if (!condition) throw UsageError(text(name, " ", value, ": expected ", expected));
}

void check(const TrainOptions& o) {
  check_values(o, o.ranks);
  require(o.steps == 0 || o.epochs == 0, "steps", o.steps, "either steps or epochs, not both");
  require(std::isfinite(static_cast<float>(o.lr)) && o.lr >= 0, "learning rate", o.lr,
          "a number above 0 that a float32 holds, such as 0.1");
  require(std::isfinite(o.momentum) && o.momentum < 1, "momentum", o.momentum, "a number from 0 to below 1");
  require(o.pace >= Duration(0), "pace", text(o.pace.count(), " ns"), "a time such as 50us");
  require(o.input_load >= Duration(0), "input-load", text(o.input_load.count(), " ns"), "a time such as 20ms");
  require((o.input_threads == 0) == (o.input_load == Duration(0)), "input-threads", o.input_threads,
          "input-load, the time that they burn for a batch, beside it, and neither without the other");
  require(o.quorum <= o.ranks, "quorum", o.quorum,
          text("a number from 1 to ", o.ranks, ", the number of ranks").c_str());
  require(std::isfinite(o.time_scale) && o.time_scale > 0, "time scale", o.time_scale, "a number above 0, such as 0.1");
  require(o.evaluate == "average" || o.evaluate_every != 0, "evaluate", o.evaluate,
          "evaluate-every, the batches between two evaluations, beside it");
  require(o.final_model != "best" || o.evaluate_every != 0, "final", o.final_model,
          "evaluate-every beside it: best is the lowest training loss of the models evaluated");
  require(o.checkpoint_every == 0 || !o.out.empty() || !o.resume.empty(), "checkpoints every",
          text(o.checkpoint_every, " batches"), "a run folder to write them to, such as --out runs/first");
  require(!o.timeline || !o.out.empty() || !o.resume.empty(), "timeline", "given",
          "a run folder to write it to, such as --out runs/first");
  require(!o.local_records || !o.out.empty() || !o.resume.empty(), "records", "local",
          "a run folder to leave them in, such as --out runs/first");
}

void check_simulation(const TrainOptions& o) {
  if (!o.simulated) {
    require(o.network.empty(), "network", o.network, "a simulated run, which alone has one that can be chosen");
    require(!o.no_gradients, "no-gradients", "given", "a simulated run; a real one computes");
    require(o.churn.empty(), "churn", o.churn, "a simulated run, in which members come and go as it says");
    require(o.compute_threads == 0, "compute-threads", o.compute_threads, "a simulated run; a real rank has one");
  } else {
    require(o.pace * o.time_scale >= Duration(1), "pace", to_text(o.pace),
            "a time a step takes for each unit of work, such as 1ms: a simulated run has no other");
    require(o.input_threads == 0, "input-threads", o.input_threads,
            "a real run: a simulated one has no cores to share");
    require(o.churn.empty() || o.least > 0, "churn", o.churn,
            "ranks MIN:MAX, as in 2:8: a job of a fixed number of ranks ends with the first that is lost");
    require(o.seats <= 1, "seats", o.seats, "1: simulated ranks are hosts of a network, and share no memory");
  }
  require(o.no_gradients || o.model_bytes == 0, "model-bytes", o.model_bytes,
          "a run without gradients; with them the model is the workload's");
  require(o.no_gradients || o.model_buckets == 1, "model-buckets", o.model_buckets,
          "a run without gradients; with them the model's layers say what is a bucket");
  require(o.no_gradients || o.model_layers.empty(), "model-layers", o.model_layers.size(),
          "a run without gradients; with them the model has layers");
  require(!o.no_gradients || o.algorithm_options.word("compression", "none") != "zeros", "compression", "zeros",
          "none or int8 without gradients, where all of the model is zero");
}

// What else ranks share cannot go on in a world of other members.
void check_members(const RunPlan& plan, const TaskFacts& facts) {
  const TrainOptions& o = plan.options;
  if (o.least == 0) return;
  const std::string range = text(o.least, ":", o.ranks);
  const auto refuse = [&range](const std::string& what, const std::string& expected) {
    throw UsageError(text("ranks ", range, " with ", what, ": expected ", expected));
  };
  require(o.least <= o.ranks, "ranks", range, "MIN:MAX, of which the first is not above the second, as in 2:8");
  // Beyond, headers that go by messages have no times of ranks, and no such job has been tried with processes.
  require(o.simulated || o.ranks <= RoundHeader::kMaxNamedRanks, "ranks", range,
          text("at most ", RoundHeader::kMaxNamedRanks, ", or a simulated run").c_str());
  require_goes_on(text("ranks ", range), plan.algorithm, o.algorithm_options, o.sync_every);
  if (facts.sums_in_passes && !o.no_gradients) refuse(facts.name, "a model that does not sum over ranks in each pass");
  if (o.delivery != "every") refuse("delivery latest", "every: replicas that have parted cannot take over from others");
  if (o.data != "shared") refuse("data " + o.data, "shared: the batches of a lost rank are computed by others");
  if (!o.simulated) return;
  if (o.checkpoint_every != 0 || !o.resume.empty()) refuse("checkpoints in virtual time", "a real run, or no range");
}

// A rank waits for all others in the middle of such a pass, so each of them has to be in its own.
void check_sums_in_passes(const RunPlan& plan, const TaskFacts& facts) {
  const TrainOptions& o = plan.options;
  if (!facts.sums_in_passes || o.no_gradients) return;
  const RecipeInfo& recipe = *plan.algorithm.recipe;
  if (plan.algorithm.policy.kind != Policy::Kind::full || recipe.parts_ranks || moves_own_weights(recipe)) {
    throw UsageError(text("algorithm '", o.algorithm, "' with ", facts.name,
                          ", whose model sums over all ranks in each pass: expected sync, under which all ranks are "
                          "at the same step"));
  }
  require(!o.simulated, "simulated", facts.name,
          "a real run, whose ranks can wait for one another in the middle of a pass");
  if (o.algorithm_options.word("ordering", "") == "none") {
    throw UsageError(text("ordering none with ", facts.name,
                          ", whose model sums over all ranks in each pass: expected one that orders, such as topo"));
  }
}

// Requires: the options of algorithms are those that this one takes.
void check_timeline(const TrainOptions& o, const TaskFacts& facts) {
  const std::string_view otherwise = facts.sums_in_passes ? kOrderOfModelSums : kDefaultOrdering;
  const std::string ordering = o.algorithm_options.word("ordering", std::string(otherwise));
  require(!o.timeline || ordering != "none", "timeline", "with ordering none",
          "one that hands gradients over tensor by tensor, such as --ordering coordinator");
}

// Each option that asks for full rounds gets them at its multiples.
std::uint64_t full_every(const RunPlan& plan) {
  if (plan.algorithm.policy.kind == Policy::Kind::full && !plan.algorithm.recipe->parts_ranks) return 0;
  const bool in_batches = plan.algorithm.recipe->local_steps == 0;  // else it counts steps of each rank
  const std::uint64_t asked = std::gcd(in_batches ? plan.options.sync_every : 0, plan.options.checkpoint_every);
  // Where gradients are averaged all ranks have the same weights after every round.
  const bool parted = moves_own_weights(*plan.algorithm.recipe) || plan.options.delivery == "latest";
  return parted && plan.options.evaluate == "average" ? std::gcd(asked, plan.options.evaluate_every) : asked;
}

// Algorithms whose ranks meet at the end alone meet as often as checkpoints and evaluations of the average want it:
// once N batches have been made, which are ⌈N/P⌉ steps of each rank.
// What the run does not come to is left to its end: all ranks finish the last ⌈N/P⌉ rounds that one has begun.
std::uint64_t sync_every(const TrainOptions& o, const RecipeInfo& recipe, std::uint64_t total_batches) {
  if (recipe.local_steps != kMeetsAtTheEnd) return recipe.local_steps;
  std::uint64_t batches = kMeetsAtTheEnd;
  if (o.checkpoint_every != 0) batches = std::min(batches, o.checkpoint_every);
  if (o.evaluate_every != 0 && o.evaluate == "average") batches = std::min(batches, o.evaluate_every);
  if (batches >= total_batches) return kMeetsAtTheEnd;
  const auto ranks = static_cast<std::uint64_t>(o.ranks);
  return (batches + ranks - 1) / ranks;
}

}  // namespace

RunPlan plan_run(const TrainOptions& options, const TaskFacts& facts) {
  check(options);
  check_simulation(options);
  const int quorum = options.algorithm == "eager-quorum" ? options.quorum : 0;  // of a comparison it alone takes one
  const bool quorum_given = options.quorum != 0;
  RunPlan plan{.options = options, .algorithm = parse_algorithm(options.algorithm, options.ranks, quorum)};
  TrainOptions& o = plan.options;
  const RecipeInfo& recipe = *plan.algorithm.recipe;
  o.workload = facts.name;
  if (o.out.empty()) o.out = o.resume;
  if (o.batch == 0) o.batch = facts.batch;
  if (o.lr == 0) o.lr = facts.lr;
  if (o.momentum < 0) o.momentum = facts.momentum;
  if (o.steps == 0 && o.epochs == 0) o.epochs = facts.epochs;
  if (o.data.empty()) o.data = o.least > 0 ? "shared" : default_data(recipe, plan.algorithm.policy);
  o.algorithm_options.keep_only(recipe.options);  // of a comparison each algorithm takes its own
  if (o.quorum == 0) o.quorum = (o.ranks + 1) / 2;
  o.normalize = o.normalize.value_or(Normalize::ranks);
  o.fixed_order = o.fixed_order.value_or(false);
  NetworkOptions network;
  if (o.simulated) {
    network = parse_network(o.network);
    o.network = to_text(network);
    o.seats = 1;
    o.fixed_order = true;  // in the order of arrival each rank would send every other one a message a round
  }
  check_sums_in_passes(plan, facts);
  check_timeline(o, facts);
  check_members(plan, facts);
  const bool latest = o.delivery == "latest";
  if (latest && (plan.algorithm.policy.kind == Policy::Kind::full || moves_own_weights(recipe))) {
    throw UsageError(text("delivery latest with algorithm '", o.algorithm,
                          "': expected an eager one, which alone has rounds that a rank misses"));
  }

  if (o.final_model == "rank0" && !moves_own_weights(recipe)) {
    throw UsageError(text("final rank0 with algorithm '", o.algorithm,
                          "': expected one that averages models; all ranks have the same weights here"));
  }

  plan.sharing = parse_sharing(o.data);
  const int labels = labels_a_rank(o.data);
  if (labels > 0) {
    o.data = text(name_of(plan.sharing), ":", labels);
    require(facts.classifies || !facts.labels.empty(), "data", o.data,
            text("samples with labels, as those of digits have; those of ", facts.name, " have none").c_str());
  }
  const bool in_parts = belongs_to_ranks(plan.sharing) || plan.sharing == Sharing::labels;
  const std::string without = recipe.without_batches == nullptr ? "" : recipe.without_batches(o.algorithm_options);
  if (in_parts && !without.empty()) {
    throw UsageError(text(without, " with data ", o.data,
                          ": expected data shared, since ranks that take no batches would have a part of it"));
  }
  plan.batches = {.samples = facts.samples,
                  .batch = o.batch,
                  .ranks = o.ranks,
                  .steps = o.steps,
                  .epochs = o.epochs,
                  .seed = o.seed,
                  .lengths = facts.lengths,
                  .bucketed = facts.bucketed,
                  .labels = labels > 0 ? facts.labels : std::vector<std::uint32_t>(),
                  .labels_a_rank = facts.labels.empty() ? 0 : labels};
  plan.total_batches = BatchPlan(plan.batches).num_batches();
  if (o.sync_every == 0) o.sync_every = sync_every(o, recipe, plan.total_batches);
  plan.imbalance = Imbalance::parse(o.imbalance, o.ranks).scaled(o.time_scale);
  plan.pace = from_seconds(seconds(o.pace) * o.time_scale);
  plan.lr = LrSchedule::parse(o.lr_schedule);
  plan.policy_of = [algorithm = plan.algorithm, quorum_given](int among) {
    return policy_among(algorithm, quorum_given, among);
  };
  plan.recipe = {.policy = plan.algorithm.policy,
                 .normalize = *o.normalize,
                 .delivery = latest ? Delivery::latest : Delivery::every,
                 .order = *o.fixed_order ? SumOrder::fixed : SumOrder::arrival,
                 .max_lag = o.max_lag,
                 .seats = o.seats,
                 .seed = o.seed,
                 .full_every = full_every(plan),
                 .local_steps = o.sync_every,
                 // Where a step is stretched by sleeping, its backward pass is over long before its end.
                 .overlap = plan.pace == Duration(0) && !plan.imbalance.injected() && o.least == 0,
                 .argument = plan.algorithm.argument,
                 .algorithm = o.algorithm_options};
  // Its options are those of the order that such a model gets by itself, too (make_sync()).
  const bool may_order = std::ranges::count(recipe.options, std::string_view("ordering")) > 0;
  if (may_order && facts.sums_in_passes && !o.no_gradients && !o.algorithm_options.given("ordering")) {
    plan.recipe.algorithm.set("ordering", std::string(kOrderOfModelSums));
  }
  if (o.simulated && ordering_choice(plan.recipe.algorithm, o.ranks).ordering.background_only) {
    throw UsageError(text("ordering ", plan.recipe.algorithm.word("ordering", ""),
                          " with a background thread of its own: expected a real run; a simulated one has no threads"));
  }
  require_helper(plan.recipe.algorithm, o.ranks, o.progress_by);
  plan.recipe.cores = cores_of(o.algorithm_options, usable_cores(), o.input_threads);
  plan.network = network;
  if (!o.churn.empty()) plan.churn = parse_churn(o.churn, o.ranks);
  if (recipe.check != nullptr) recipe.check(plan.recipe, o.ranks);
  if (o.least > 0) check_each_number(recipe, plan.recipe, o.least, o.ranks);
  return plan;
}

Duration drawn_step_time(const RunPlan& plan, int rank, std::uint64_t step, std::uint64_t units,
                         double seconds_per_unit) {
  const auto draw = plan.imbalance.draw(plan.options.seed, rank, step);
  const Duration a_unit = plan.pace > Duration(0) ? plan.pace : from_seconds(seconds_per_unit);
  return paced_step_time(a_unit, units, draw);
}

}  // namespace stretto
