#include "stretto/train/loop/loop_checkpoint.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const LoopCheckpoint& c) {
  ordered_json json{{"version", LoopCheckpoint::kVersion},
                    {"loop", true},
                    {"library", c.replica.library},
                    {"model", c.replica.model},
                    {"optimizer", c.replica.optimizer},
                    {"ranks", c.ranks},
                    {"batches", c.batches},
                    {"steps", c.steps},
                    {"scheduler_steps", c.scheduler_steps},
                    {"scheduler_batches", c.scheduler_batches},
                    {"random", c.random},
                    {"pool", c.pool},
                    {"position", ordered_json::parse(to_json(c.position))},
                    {"parameters_checksum", c.checksum.parameters},
                    {"optimizer_checksum", c.checksum.optimizer},
                    {"algorithm", c.algorithm}};
  if (c.any_ranks) json["any_ranks"] = true;
  return json;
}

/// Throws nlohmann's exceptions, and Failure for a position that is none.
LoopCheckpoint from_json(const ordered_json& json) {
  LoopCheckpoint c;
  json.at("library").get_to(c.replica.library);
  json.at("model").get_to(c.replica.model);
  json.at("optimizer").get_to(c.replica.optimizer);
  json.at("ranks").get_to(c.ranks);
  c.any_ranks = json.value("any_ranks", false);
  json.at("batches").get_to(c.batches);
  json.at("steps").get_to(c.steps);
  json.at("scheduler_steps").get_to(c.scheduler_steps);
  c.scheduler_batches = json.value("scheduler_batches", c.scheduler_batches);
  json.at("random").get_to(c.random);
  json.at("pool").get_to(c.pool);
  c.position = position_from_json(json.at("position").dump()).or_throw();
  json.at("parameters_checksum").get_to(c.checksum.parameters);
  json.at("optimizer_checksum").get_to(c.checksum.optimizer);
  json.at("algorithm").get_to(c.algorithm);
  return c;
}

/// Why `c` cannot be the checkpoint of any loop; empty if it can.
std::string contradiction(const LoopCheckpoint& c) {
  if (!c.scheduler_batches.empty() && c.scheduler_batches.size() != c.scheduler_steps.size()) {
    return text("the steps of ", c.scheduler_steps.size(), " schedulers, and the batches of ",
                c.scheduler_batches.size());
  }
  if (c.any_ranks) return {};
  if (c.steps.size() != c.ranks) return text(c.ranks, " ranks, and the steps of ", c.steps.size());
  if (c.random.size() != c.ranks) return text(c.ranks, " ranks, and the random numbers of ", c.random.size());
  if (!c.pool.empty() && c.position.steps.size() != c.ranks) {
    return text(c.ranks, " ranks, and the batches of ", c.position.steps.size());
  }
  const std::uint64_t made = std::accumulate(c.steps.begin(), c.steps.end(), std::uint64_t{0});
  if (made != c.batches) return text(c.batches, " batches, and ", made, " steps of all ranks");
  return {};
}

template <class T>
void require_equal(const std::string& folder, const char* what, const T& there, const T& here) {
  if (there == here) return;
  refuse_checkpoint(folder, text("it is of another program, with ", what, " ", there, " where this one has ", here));
}

/// Whose checkpoint.json lies in `folder`, if it is not one that a loop over this model with this optimizer has
/// written; else empty. A loop that is started anew may replace its own older one.
std::string foreign(const std::string& folder, const ordered_json& mine) {
  if (!has_checkpoint(folder)) return {};
  const auto content = read_whole_file((std::filesystem::path(folder) / "checkpoint.json").string());
  const ordered_json there = ordered_json::parse(content ? *content : "", nullptr, false);
  if (!there.is_object() || there.value("loop", ordered_json()) != mine["loop"]) return "none of a loop";
  for (const char* what : {"model", "optimizer"}) {
    if (there.value(what, ordered_json()) != mine[what]) return text("that of a program with another ", what);
  }
  return {};
}

}  // namespace

Result<void> write_loop_checkpoint(const std::string& folder, const LoopCheckpoint& checkpoint, Replica& replica,
                                   const std::string& recipe_state, const Disk& disk) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{Errc::io, text("folder '", folder, "' cannot be made: ", error.message())};
  const ordered_json json = json_of(checkpoint);
  if (const std::string whose = foreign(folder, json); !whose.empty()) {
    return Error{Errc::bad_input,
                 text("'", folder, "/checkpoint.json' is ", whose, " and would be lost: expected a folder of its own")};
  }
  const auto opened = RunFolder::open(folder);
  if (!opened) return opened.error();
  try {
    return write_checkpoint_files(*opened, checkpoint.batches, json.dump(),
                                  {.replica = replica.save(), .recipe = recipe_state}, disk);
  } catch (const Failure& failure) {
    return failure.error();
  }
}

std::string to_json(const LoopCheckpoint& checkpoint) {
  return json_of(checkpoint).dump();
}

LoopCheckpoint loop_checkpoint_from_json(const std::string& json) {
  return from_json(ordered_json::parse(json));
}

LoopCheckpoint read_loop_checkpoint(const std::string& folder, const ReplicaIdentity& here, std::optional<int> ranks,
                                    CheckpointPaths& paths) {
  const std::string json = read_checkpoint_files(folder, LoopCheckpoint::kVersion, paths);
  try {
    LoopCheckpoint c = loop_checkpoint_from_json(json);
    if (const std::string why = contradiction(c); !why.empty()) refuse_checkpoint(folder, "contradicts itself: " + why);
    require_equal(folder, "library", c.replica.library, here.library);
    require_equal(folder, "optimizer", c.replica.optimizer, here.optimizer);
    if (ranks && !c.any_ranks) require_equal(folder, "ranks", c.ranks, static_cast<std::uint64_t>(*ranks));
    if (c.replica.model != here.model) {
      refuse_checkpoint(folder, "it is of another program: names, shapes or types of its model's parameters differ");
    }
    return c;
  } catch (const nlohmann::json::exception& error) {
    refuse_checkpoint(folder, text("truncated or damaged (", json_fault(error), ")"));
  } catch (const Failure& failure) {
    refuse_checkpoint(folder, failure.error().message);
  }
}

}  // namespace stretto
