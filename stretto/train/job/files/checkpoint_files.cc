#include "stretto/train/job/files/checkpoint_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "stretto/base/words.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {

ReplicaIdentity identity_of(const Replica& replica) {
  const std::string optimizer = replica.optimizer_description();
  return {.library = replica.library(),
          .model = Hash64::of(replica.model_description()),
          .optimizer = optimizer.substr(0, optimizer.find('\n'))};
}

namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kFile = "checkpoint.json";

/// A file beside checkpoint.json; its keys there are <what>_file, <what>_bytes and <what>_hash.
struct StateFile {
  const char* what;
  const char* extension;
  std::string of(std::uint64_t batches) const { return text("stretto-", what, "-", batches, extension); }
  std::string key(const char* part) const { return text(what, "_", part); }
};
constexpr StateFile kReplica{"state", ".pt"}, kRecipe{"recipe", ".bin"};

std::string path_of(const std::string& folder) {
  return (fs::path(folder) / kFile).string();
}

/// The state files that checkpoint.json names; none where there is no checkpoint.json that can be read.
std::vector<std::string> named_states(const RunFolder& folder) {
  const auto content = folder.read(kFile);
  const auto json = ordered_json::parse(content ? *content : "", nullptr, false);
  std::vector<std::string> names;
  for (const StateFile& file : {kReplica, kRecipe}) {
    const auto named = json.is_object() ? json.find(file.key("file")) : json.end();
    if (named != json.end() && named->is_string()) names.push_back(named->get<std::string>());
  }
  return names;
}

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw UsageError(text("cannot continue from ", file, ": ", why));
}

ordered_json parsed(const std::string& folder, const std::string& content, int version) {
  try {
    auto json = ordered_json::parse(content);
    const int there = json.at("version");
    if (there != version) refuse_checkpoint(folder, text("version ", there, " of the format, expected ", version));
    const std::uint64_t checksum = json.at("checksum");
    json.erase("checksum");
    if (checksum != Hash64::of(json.dump())) refuse_checkpoint(folder, "damaged: its checksum is of another content");
    return json;
  } catch (const nlohmann::json::exception& error) {
    refuse_checkpoint(folder, text("truncated or damaged (", json_fault(error), ")"));
  }
}

Result<void> write_state(const RunFolder& folder, std::uint64_t batches, const StateFile& file,
                         const std::string& state, ordered_json& json, const Disk& disk) {
  const std::string name = file.of(batches);
  json[file.key("file")] = name;
  json[file.key("bytes")] = state.size();
  json[file.key("hash")] = Hash64::of(state);
  return folder.write(name, state, disk);
}

/// The path of a state that is whole.
std::string checked_state(const std::string& folder, const StateFile& file, const ordered_json& json) {
  const std::string name = json.at(file.key("file")), expected = file.of(json.at("batches"));
  if (name != expected) {
    refuse_checkpoint(folder, text("contradicts itself: ", file.what, " file '", name, "', expected ", expected));
  }
  std::string path = (fs::path(folder) / name).string();
  const auto state = read_whole_file(path, FileContent::bytes);
  if (!state) refuse(path, state.error().message);
  const std::uint64_t bytes = json.at(file.key("bytes")), hash = json.at(file.key("hash"));
  if (state->size() != bytes) {
    const char* how = state->size() < bytes ? "truncated: " : "too long: ";
    refuse(path, text(how, state->size(), " bytes, expected ", bytes));
  }
  if (Hash64::of(*state) != hash) refuse(path, "damaged: its content is not what was written");
  return path;
}

}  // namespace

Result<void> write_checkpoint_files(const RunFolder& folder, std::uint64_t batches, const std::string& object,
                                    const CheckpointStates& states, const Disk& disk) {
  ordered_json json = ordered_json::parse(object);
  auto written = write_state(folder, batches, kReplica, states.replica, json, disk);
  if (written && !states.recipe.empty()) written = write_state(folder, batches, kRecipe, states.recipe, json, disk);
  json["checksum"] = Hash64::of(json.dump());
  if (written) written = folder.write(kFile, json.dump(2), disk);
  // Those that are named stay: the new ones, unless they could not be written.
  folder.remove_states_but(named_states(folder), disk);
  return written;
}

std::string read_checkpoint_files(const std::string& folder, int version, CheckpointPaths& paths) {
  const auto content = read_whole_file(path_of(folder));
  if (!content) {
    refuse_checkpoint(folder,
                      "no such file; expected a run folder in which a checkpoint was written (--checkpoint-every)");
  }
  const ordered_json json = parsed(folder, *content, version);
  try {
    paths.replica = checked_state(folder, kReplica, json);
    paths.recipe = json.contains(kRecipe.key("file")) ? checked_state(folder, kRecipe, json) : "";
  } catch (const nlohmann::json::exception& error) {
    refuse_checkpoint(folder, text("truncated or damaged (", json_fault(error), ")"));
  }
  return json.dump();
}

bool has_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(path_of(folder), ignored);
}

void refuse_checkpoint(const std::string& folder, const std::string& why) {
  refuse(path_of(folder), why);
}

}  // namespace stretto
