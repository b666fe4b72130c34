#include "stretto/train/checkpoint.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "stretto/train/flat_math.h"

namespace stretto {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kFile = "checkpoint.json";

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::uint64_t hash_of(std::string_view text) {
  Hash64 hash;
  hash.add(text);
  return hash.value();
}

std::uint64_t hash_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Hash64 hash;
  std::vector<char> piece(1 << 20);
  while (in) {
    in.read(piece.data(), std::ssize(piece));
    hash.add(std::string_view(piece.data(), static_cast<std::size_t>(in.gcount())));
  }
  return hash.value();
}

template <class T>
void require_equal(const char* what, const T& there, const T& here) {
  if (there == here) return;
  throw UsageError(
      text("checkpoint with ", what, " ", there, ", this run with ", what, " ", here, ": continue with the same"));
}

}  // namespace

const char* stretto_version() {
  return STRETTO_VERSION;
}

Checkpoint checkpoint_identity(const RunPlan& plan) {
  const TrainOptions& o = plan.options;
  return {.stretto = stretto_version(),
          .task = o.workload,
          .ranks = o.ranks,
          .batch = o.batch,
          .data = o.data,
          .seed = o.seed};
}

void add_identity(Checkpoint& checkpoint, const Replica& replica) {
  checkpoint.library = replica.library();
  checkpoint.model = hash_of(replica.model_description());
  checkpoint.optimizer = first_line(replica.optimizer_description());
}

Result<void> write_checkpoint(const RunFolder& folder, Checkpoint c, Replica& replica) {
  const std::string before = folder.file(kFile);
  std::string old_state;
  try {
    if (fs::exists(before)) old_state = read_checkpoint(folder.path()).state_file;
  } catch (const UsageError&) {
    // Not usable and about to be replaced.
  }
  c.state_file = text("checkpoint-", c.batches, ".pt");
  const std::string path = folder.file(c.state_file);
  const std::string unfinished = path + ".tmp";
  try {
    replica.save(unfinished);
    c.state_bytes = fs::file_size(unfinished);
    c.state_hash = hash_of_file(unfinished);
    c.checksum = replica.checksum();
    fs::rename(unfinished, path);
  } catch (const Failure& failure) {
    return failure.error();
  } catch (const fs::filesystem_error& error) {
    return Error{Errc::io, text("cannot write ", path, ": ", error.code().message())};
  }
  const ordered_json json{{"version", Checkpoint::kVersion},
                          {"stretto", c.stretto},
                          {"library", c.library},
                          {"task", c.task},
                          {"model", c.model},
                          {"optimizer", c.optimizer},
                          {"ranks", c.ranks},
                          {"batch", c.batch},
                          {"data", c.data},
                          {"seed", c.seed},
                          {"batches", c.batches},
                          {"position", ordered_json::parse(to_json(c.position))},
                          {"parameters_checksum", c.checksum.parameters},
                          {"optimizer_checksum", c.checksum.optimizer},
                          {"state_file", c.state_file},
                          {"state_bytes", c.state_bytes},
                          {"state_hash", c.state_hash}};
  if (auto written = folder.write(kFile, json.dump(2)); !written) return written;
  if (!old_state.empty() && old_state != c.state_file) {
    std::error_code ignored;  // an old state left behind harms nobody
    fs::remove(folder.file(old_state), ignored);
  }
  return {};
}

Checkpoint read_checkpoint(const std::string& folder) {
  const fs::path file = fs::path(folder) / kFile;
  const auto refuse = [&](const fs::path& what, const std::string& why) {
    throw UsageError(text("cannot continue from ", what.string(), ": ", why));
  };
  std::ifstream in(file);
  if (!in) refuse(file, "no such file; expected a run folder in which a checkpoint was written (--checkpoint-every)");
  std::stringstream content;
  content << in.rdbuf();
  Checkpoint c;
  try {
    const auto json = ordered_json::parse(content.str());
    const int version = json.at("version");
    if (version != Checkpoint::kVersion) {
      refuse(file, text("version ", version, " of the format, expected ", Checkpoint::kVersion));
    }
    json.at("stretto").get_to(c.stretto);
    json.at("library").get_to(c.library);
    json.at("task").get_to(c.task);
    json.at("model").get_to(c.model);
    json.at("optimizer").get_to(c.optimizer);
    json.at("ranks").get_to(c.ranks);
    json.at("batch").get_to(c.batch);
    json.at("data").get_to(c.data);
    json.at("seed").get_to(c.seed);
    json.at("batches").get_to(c.batches);
    const auto position = position_from_json(json.at("position").dump());
    if (!position) refuse(file, position.error().message);
    c.position = *position;
    json.at("parameters_checksum").get_to(c.checksum.parameters);
    json.at("optimizer_checksum").get_to(c.checksum.optimizer);
    json.at("state_file").get_to(c.state_file);
    json.at("state_bytes").get_to(c.state_bytes);
    json.at("state_hash").get_to(c.state_hash);
  } catch (const nlohmann::json::exception& error) {
    refuse(file, text("truncated or damaged (", error.what(), ")"));
  }
  const fs::path state = fs::path(folder) / c.state_file;
  std::error_code error;
  const auto bytes = fs::file_size(state, error);
  if (error) refuse(state, error.message());
  if (bytes != c.state_bytes) refuse(state, text("truncated: ", bytes, " bytes, expected ", c.state_bytes));
  if (hash_of_file(state.string()) != c.state_hash) refuse(state, "damaged: its content is not what was written");
  c.state_path = state.string();
  return c;
}

void require_same_job(const Checkpoint& checkpoint, const RunPlan& plan) {
  const Checkpoint here = checkpoint_identity(plan);
  require_equal("stretto version", checkpoint.stretto, here.stretto);
  require_equal("workload", checkpoint.task, here.task);
  require_equal("ranks", checkpoint.ranks, here.ranks);
  require_equal("batch", checkpoint.batch, here.batch);
  require_equal("data", checkpoint.data, here.data);
  require_equal("seed", checkpoint.seed, here.seed);
  if (checkpoint.batches > plan.total_batches) {
    throw UsageError(text("checkpoint after ", checkpoint.batches, " batches, this run has ", plan.total_batches,
                          " in all: continue with at least as many steps or epochs"));
  }
}

void require_same_model(const Checkpoint& checkpoint, const Replica& replica) {
  Checkpoint here;
  add_identity(here, replica);
  require_equal("library", checkpoint.library, here.library);
  if (checkpoint.model != here.model) {
    throw UsageError("checkpoint of another model: names, shapes or types of its parameters differ");
  }
  require_equal("optimizer", checkpoint.optimizer, here.optimizer);
}

}  // namespace stretto
