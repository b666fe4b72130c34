#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/dispenser/position.h"
#include "stretto/observe/whole_file.h"
#include "stretto/train/job/files/checkpoint_files.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// Where a loop of the user's own stands after a full round, when nothing is pending and one copy of weights, buffers
/// and optimizer is that of all ranks. Files of a folder (checkpoint_files.h).
///
/// Where models are averaged the optimizer's state is that of rank 0.
struct LoopCheckpoint {
  static constexpr int kVersion = 2;

  // The facts that must be the same where the loop goes on.
  ReplicaIdentity replica;
  std::uint64_t ranks = 0;
  /// Members of the job change, or did before it went on with others: it may go on with any number of ranks, and has no
  /// steps and random numbers of ranks to go on from.
  bool any_ranks = false;

  // Where it stands.
  std::uint64_t batches = 0;                       ///< applied
  std::vector<std::uint64_t> steps;                ///< of each rank
  std::vector<std::uint64_t> scheduler_steps;      ///< of each learning-rate scheduler, in order
  std::vector<std::uint64_t> scheduler_batches;    ///< of each, applied at its last step; empty: not known
  std::vector<std::vector<std::uint64_t>> random;  ///< of each rank: the state of the library's random numbers
  std::string pool;                                ///< which batches, in words, where they are ours
  DispenserPosition position;                      ///< in them
  ReplicaChecksum checksum;
  std::string algorithm;  ///< name of the recipe; with another one its state is of no use, and is left
};

/// With the state of the recipe (Recipe::state()). Errc::io names what could not be written, Errc::bad_input whose
/// checkpoint lies there if it is of another program; what was there before is untouched then. Makes the folder.
Result<void> write_loop_checkpoint(const std::string& folder, const LoopCheckpoint& checkpoint, Replica& replica,
                                   const std::string& recipe_state, const Disk& disk = Disk());

/// As rank 0 tells it the others; and what they make of it.
std::string to_json(const LoopCheckpoint& checkpoint);
LoopCheckpoint loop_checkpoint_from_json(const std::string& json);

/// The checkpoint of a folder, and in `paths` the files of its states. Throws UsageError, in one line, where
/// it is truncated, damaged, contradicts itself, or is not of `here` on so many ranks, naming the first thing that
/// differs. No `ranks`: any number, since members of the job change.
LoopCheckpoint read_loop_checkpoint(const std::string& folder, const ReplicaIdentity& here, std::optional<int> ranks,
                                    CheckpointPaths& paths);

}  // namespace stretto
