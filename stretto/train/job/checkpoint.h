#pragma once

#include <cstdint>
#include <string>

#include "stretto/base/error.h"
#include "stretto/dispenser/position.h"
#include "stretto/observe/run_folder.h"
#include "stretto/train/job/files/checkpoint_files.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// The position of a job after a full round: nothing is pending then, and one copy of weights and optimizer is that of
/// all ranks. Files of the run folder: checkpoint.json, which this is, and the states of the replica and, where it has
/// one, of the algorithm, which it names (checkpoint_files.h).
///
/// Where models are averaged, and under delivery latest, the optimizer's state is that of rank 0.
struct Checkpoint {
  static constexpr int kVersion = 3;

  // The job it belongs to; all of it must be the same where it is continued.
  std::string stretto;  ///< version of this library
  std::string task;
  ReplicaIdentity replica;  ///< rank 0's
  int ranks = 0;
  /// Members of the job change, or did before it went on with others: its batches belong to no rank, and it may go on
  /// with any number of ranks. Its position may have the steps of more of them.
  bool any_ranks = false;
  int batch = 0;
  std::string data;
  std::uint64_t seed = 0;
  double momentum = 0;  ///< the optimizer's state brings it along, so another one would have no effect

  // Where it stands.
  std::uint64_t batches = 0;  ///< applied
  double seconds = 0;         ///< since the first step of the job, without the time between its parts
  DispenserPosition position;
  ReplicaChecksum checksum;
  std::string algorithm;  ///< name of the recipe; with another one its state is of no use, and is left
  CheckpointPaths paths;  ///< on rank 0: where read_checkpoint() has found the states
};

/// The identity of the job that `plan` describes, without that of its replicas; the rest is empty.
Checkpoint checkpoint_identity(const RunPlan& plan);

/// The position of a job that goes on from `resume`, null: from its start, with the steps of so many ranks or more.
DispenserPosition position_before(const Checkpoint* resume, int ranks);
/// The same for a Dispenser of one of them. `from_pool`: the job's pool is at that position already, which hands out
/// its batches.
DispenserPosition dispenser_position(const Checkpoint* resume, int ranks, bool from_pool);

/// Writes the replica's state and that of the recipe (Recipe::state()), then the checkpoint, and removes older states.
/// An error: the old checkpoint is untouched, and nothing of the new one is left.
Result<void> write_checkpoint(const RunFolder& folder, Checkpoint checkpoint, Replica& replica,
                              const std::string& recipe_state, const Disk& disk = Disk());

/// The checkpoint of a run folder; that it and its state file are whole is verified by their checksums. Throws
/// UsageError, in one line, when there is none, or it is truncated, damaged, or of another version.
Checkpoint read_checkpoint(const std::string& folder);

/// All but the paths, as rank 0 tells it the others; and what they make of it.
std::string to_json(const Checkpoint& checkpoint);
Checkpoint checkpoint_from_json(const std::string& json);

/// Throws UsageError, which names the first thing that differs, unless `checkpoint` is of the job that `plan`
/// describes. One whose members change may go on from a job of any number of ranks, also where batches belonged to
/// them.
void require_same_job(const Checkpoint& checkpoint, const RunPlan& plan);
/// The same for the part that only the replica knows.
void require_same_model(const Checkpoint& checkpoint, const Replica& replica);

}  // namespace stretto
