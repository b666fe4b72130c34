#include "stretto/train/job/checkpoint_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kFile = "checkpoint.json";

std::string state_file_of(std::uint64_t batches) {
  return text("stretto-state-", batches, ".pt");
}

std::string path_of(const std::string& folder) {
  return (fs::path(folder) / kFile).string();
}

/// The state file that checkpoint.json names; empty where there is no checkpoint.json that can be read.
std::string named_state(const RunFolder& folder) {
  const auto content = folder.read(kFile);
  const auto json = ordered_json::parse(content ? *content : "", nullptr, false);
  const auto named = json.is_object() ? json.find("state_file") : json.end();
  return named != json.end() && named->is_string() ? named->get<std::string>() : "";
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
    refuse_checkpoint(folder, text("truncated or damaged (", error.what(), ")"));
  }
}

}  // namespace

Result<void> write_checkpoint_files(const RunFolder& folder, std::uint64_t batches, const std::string& object,
                                    const std::string& state, const Disk& disk) {
  ordered_json json = ordered_json::parse(object);
  const std::string state_file = state_file_of(batches);
  json["state_file"] = state_file;
  json["state_bytes"] = state.size();
  json["state_hash"] = Hash64::of(state);
  json["checksum"] = Hash64::of(json.dump());
  auto written = folder.write(state_file, state, disk);
  if (written) written = folder.write(kFile, json.dump(2), disk);
  // The one that is named stays: the new one, unless it could not be written.
  folder.remove_states_but(named_state(folder), disk);
  return written;
}

std::string read_checkpoint_files(const std::string& folder, int version, std::string& state_path) {
  const auto content = read_whole_file(path_of(folder));
  if (!content) {
    refuse_checkpoint(folder,
                      "no such file; expected a run folder in which a checkpoint was written (--checkpoint-every)");
  }
  const ordered_json json = parsed(folder, *content, version);
  try {
    const std::string state_file = json.at("state_file");
    const std::string expected = state_file_of(json.at("batches"));
    if (state_file != expected) {
      refuse_checkpoint(folder, text("contradicts itself: state file '", state_file, "', expected ", expected));
    }
    state_path = (fs::path(folder) / state_file).string();
    const auto state = read_whole_file(state_path);
    if (!state) refuse(state_path, state.error().message);
    const std::uint64_t bytes = json.at("state_bytes"), hash = json.at("state_hash");
    if (state->size() != bytes) {
      const char* how = state->size() < bytes ? "truncated: " : "too long: ";
      refuse(state_path, text(how, state->size(), " bytes, expected ", bytes));
    }
    if (Hash64::of(*state) != hash) refuse(state_path, "damaged: its content is not what was written");
  } catch (const nlohmann::json::exception& error) {
    refuse_checkpoint(folder, text("truncated or damaged (", error.what(), ")"));
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
