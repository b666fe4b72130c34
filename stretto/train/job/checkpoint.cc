#include "stretto/train/job/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "stretto/base/version.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Checkpoint& c) {
  ordered_json json = {{"version", Checkpoint::kVersion},
                       {"stretto", c.stretto},
                       {"library", c.replica.library},
                       {"task", c.task},
                       {"model", c.replica.model},
                       {"optimizer", c.replica.optimizer},
                       {"ranks", c.ranks},
                       {"batch", c.batch},
                       {"data", c.data},
                       {"seed", c.seed},
                       {"momentum", c.momentum},
                       {"batches", c.batches},
                       {"seconds", c.seconds},
                       {"position", ordered_json::parse(to_json(c.position))},
                       {"parameters_checksum", c.checksum.parameters},
                       {"optimizer_checksum", c.checksum.optimizer},
                       {"algorithm", c.algorithm}};
  if (c.any_ranks) json["any_ranks"] = true;
  return json;
}

/// All but the version, and the state file's name. Throws nlohmann's exceptions, and Failure for a position that is
/// none.
Checkpoint from_json(const ordered_json& json) {
  Checkpoint c;
  json.at("stretto").get_to(c.stretto);
  json.at("library").get_to(c.replica.library);
  json.at("task").get_to(c.task);
  json.at("model").get_to(c.replica.model);
  json.at("optimizer").get_to(c.replica.optimizer);
  json.at("ranks").get_to(c.ranks);
  c.any_ranks = json.value("any_ranks", false);
  json.at("batch").get_to(c.batch);
  json.at("data").get_to(c.data);
  json.at("seed").get_to(c.seed);
  json.at("momentum").get_to(c.momentum);
  json.at("batches").get_to(c.batches);
  json.at("seconds").get_to(c.seconds);
  c.position = position_from_json(json.at("position").dump()).or_throw();
  json.at("parameters_checksum").get_to(c.checksum.parameters);
  json.at("optimizer_checksum").get_to(c.checksum.optimizer);
  json.at("algorithm").get_to(c.algorithm);
  return c;
}

/// Why `c` cannot be the checkpoint of any job; empty if it can.
std::string contradiction(const Checkpoint& c) {
  const std::uint64_t used = c.position.next - c.position.returned.size();
  if (used != c.batches) return text(c.batches, " batches, and ", used, " by its position in the data");
  const auto& steps = c.position.steps;
  if (c.any_ranks ? std::cmp_less(steps.size(), c.ranks) : std::cmp_not_equal(steps.size(), c.ranks))
    return text(c.ranks, " ranks, and the steps of ", steps.size());
  const std::uint64_t made = std::accumulate(steps.begin(), steps.end(), std::uint64_t{0});
  const bool fits = made == c.batches || (c.any_ranks && made < c.batches);  // a few may have been dropped
  if (!fits) return text(c.batches, " batches, and ", made, " steps of all ranks");
  return {};
}

template <class T>
void require_equal(const char* what, const T& there, const T& here) {
  if (there == here) return;
  throw UsageError(
      text("checkpoint with ", what, " ", there, ", this run with ", what, " ", here, ": continue with the same"));
}

}  // namespace

Checkpoint checkpoint_identity(const RunPlan& plan) {
  const TrainOptions& o = plan.options;
  return {.stretto = stretto_version(),
          .task = o.workload,
          .ranks = o.ranks,
          .any_ranks = o.least > 0,
          .batch = o.batch,
          .data = o.data,
          .seed = o.seed,
          .momentum = o.momentum,
          .algorithm = std::string(plan.algorithm.recipe->name)};
}

DispenserPosition position_before(const Checkpoint* resume, int ranks) {
  if (resume == nullptr) return DispenserPosition(ranks);
  DispenserPosition position = resume->position;
  position.steps.resize(std::max(position.steps.size(), static_cast<std::size_t>(ranks)));
  return position;
}

DispenserPosition dispenser_position(const Checkpoint* resume, int ranks, bool from_pool) {
  DispenserPosition position = position_before(resume, ranks);
  position.steps.resize(static_cast<std::size_t>(ranks));
  if (from_pool) {
    position.next = 0;
    position.returned.clear();
  }
  return position;
}

Result<void> write_checkpoint(const RunFolder& folder, Checkpoint c, Replica& replica, const std::string& recipe_state,
                              const Disk& disk) {
  CheckpointStates states{.replica = {}, .recipe = recipe_state};
  try {
    states.replica = replica.save();
  } catch (const Failure& failure) {
    return failure.error();
  }
  c.checksum = replica.checksum();
  return write_checkpoint_files(folder, c.batches, to_json(c), states, disk);
}

std::string to_json(const Checkpoint& checkpoint) {
  return json_of(checkpoint).dump();
}

Checkpoint checkpoint_from_json(const std::string& json) {
  return from_json(ordered_json::parse(json));
}

Checkpoint read_checkpoint(const std::string& folder) {
  CheckpointPaths paths;
  const std::string json = read_checkpoint_files(folder, Checkpoint::kVersion, paths);
  try {
    Checkpoint c = checkpoint_from_json(json);
    if (const std::string why = contradiction(c); !why.empty()) refuse_checkpoint(folder, "contradicts itself: " + why);
    c.paths = paths;
    return c;
  } catch (const nlohmann::json::exception& error) {
    refuse_checkpoint(folder, text("truncated or damaged (", json_fault(error), ")"));
  } catch (const Failure& failure) {
    refuse_checkpoint(folder, failure.error().message);
  }
}

void require_same_job(const Checkpoint& checkpoint, const RunPlan& plan) {
  const Checkpoint here = checkpoint_identity(plan);
  require_equal("stretto version", checkpoint.stretto, here.stretto);
  require_equal("workload", checkpoint.task, here.task);
  if (!checkpoint.any_ranks && !here.any_ranks) require_equal("ranks", checkpoint.ranks, here.ranks);
  require_equal("batch", checkpoint.batch, here.batch);
  const bool belonged_to_ranks = checkpoint.data == name_of(Sharing::partitioned);
  if (!here.any_ranks || !belonged_to_ranks) require_equal("data", checkpoint.data, here.data);
  require_equal("seed", checkpoint.seed, here.seed);
  require_equal("momentum", checkpoint.momentum, here.momentum);
  if (checkpoint.batches > plan.total_batches) {
    throw UsageError(text("checkpoint after ", checkpoint.batches, " batches, this run has ", plan.total_batches,
                          " in all: continue with at least as many steps or epochs"));
  }
}

void require_same_model(const Checkpoint& checkpoint, const Replica& replica) {
  const ReplicaIdentity &there = checkpoint.replica, here = identity_of(replica);
  require_equal("library", there.library, here.library);
  if (there.model != here.model) {
    throw UsageError("checkpoint of another model: names, shapes or types of its parameters differ");
  }
  require_equal("optimizer", there.optimizer, here.optimizer);
}

}  // namespace stretto
