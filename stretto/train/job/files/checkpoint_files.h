#pragma once

#include <cstdint>
#include <string>

#include "stretto/base/error.h"
#include "stretto/observe/run_folder.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// The identity of the replica whose state a checkpoint holds; all of it must be the same where it is loaded.
struct ReplicaIdentity {
  std::string library;      ///< that computes, with its version
  std::uint64_t model = 0;  ///< hash of the model's description
  std::string optimizer;    ///< its type, without options: the learning rate may be another one
};

ReplicaIdentity identity_of(const Replica& replica);

/// The states of a checkpoint beside its JSON, as the content of files.
struct CheckpointStates {
  std::string replica;  ///< Replica::save()
  std::string recipe;   ///< Recipe::state(); empty: there is no file of it
};

/// Where the states of a checkpoint lie.
struct CheckpointPaths {
  std::string replica;  ///< for Replica::load()
  std::string recipe;   ///< a file with what Recipe::set_state() takes; empty: there is none
};

/// Writes a checkpoint: the states to stretto-state-<batches>.pt and stretto-recipe-<batches>.bin, then `json`, an
/// object with "version" and "batches", which gets the names, sizes and hashes of these files and a checksum of its
/// own, to checkpoint.json; then removes older states. The states are on the disk before checkpoint.json is renamed,
/// and that before the older ones are removed: whenever the power is cut, checkpoint.json and the states it names are
/// whole. An error: the old checkpoint is untouched, and nothing of the new one is left.
Result<void> write_checkpoint_files(const RunFolder& folder, std::uint64_t batches, const std::string& json,
                                    const CheckpointStates& states, const Disk& disk = Disk());

/// The object of the folder's checkpoint.json, and in `paths` the files of its states; that all are whole is verified
/// by their checksums. Throws UsageError, in one line, when there is none, or it is truncated, damaged, or of another
/// `version` of the format.
std::string read_checkpoint_files(const std::string& folder, int version, CheckpointPaths& paths);

/// Whether the folder has a checkpoint.json, whole or not.
bool has_checkpoint(const std::string& folder);

/// UsageError: "cannot continue from FOLDER/checkpoint.json: WHY".
[[noreturn]] void refuse_checkpoint(const std::string& folder, const std::string& why);

}  // namespace stretto
