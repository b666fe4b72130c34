#pragma once

#include <cstdint>
#include <string>

#include "stretto/base/error.h"
#include "stretto/observe/run_folder.h"

namespace stretto {

/// Writes a checkpoint: `state` to stretto-state-<batches>.pt, then `json`, an object with "version" and "batches",
/// which gets the name, size and hash of that file and a checksum of its own, to checkpoint.json; then removes older
/// states. The state is on the disk before checkpoint.json is renamed, and that before the older state is removed:
/// whenever the power is cut, checkpoint.json and the state it names are whole. An error: the old checkpoint is
/// untouched, and nothing of the new one is left.
Result<void> write_checkpoint_files(const RunFolder& folder, std::uint64_t batches, const std::string& json,
                                    const std::string& state, const Disk& disk = Disk());

/// The object of the folder's checkpoint.json, and in `state_path` the file of its state; that both are whole is
/// verified by their checksums. Throws UsageError, in one line, when there is none, or it is truncated, damaged, or of
/// another `version` of the format.
std::string read_checkpoint_files(const std::string& folder, int version, std::string& state_path);

/// Whether the folder has a checkpoint.json, whole or not.
bool has_checkpoint(const std::string& folder);

/// UsageError: "cannot continue from FOLDER/checkpoint.json: WHY".
[[noreturn]] void refuse_checkpoint(const std::string& folder, const std::string& why);

}  // namespace stretto
