#pragma once

#include <string>

#include "stretto/base/function_ref.h"
#include "stretto/train/job/files/checkpoint_files.h"
#include "stretto/train/recipes/recipe.h"
#include "stretto/train/replica/meeting.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// \file
/// Rank 0 alone reads and writes the checkpoints of a job: other ranks may be on hosts that do not see the folder.
/// Every rank calls what takes a meeting, in the same order.

/// Whether there is a checkpoint in `folder` as rank 0 sees it. Throws UsageError, which names ranks and hosts, where
/// another rank alone sees one.
bool rank_0_has_checkpoint(Meeting& meeting, Driver& driver, const std::string& folder);

/// Takes over the states of the checkpoint in `folder`, each of which `content` reads from its path. `recipe`: takes
/// over its state; null: the checkpoint is another algorithm's. Throws UsageError where the weights are not those of
/// `checksum`, and Failure.
void load_states(FunctionRef<std::string(const std::string& path)> content, const std::string& folder,
                 const CheckpointPaths& paths, const ReplicaChecksum& checksum, Replica& replica, Recipe* recipe);
/// The same of a rank that reads them from the folder by itself.
void load_states(const std::string& folder, const CheckpointPaths& paths, const ReplicaChecksum& checksum,
                 Replica& replica, Recipe* recipe);
/// Gives all ranks the states of the checkpoint in `folder`, which rank 0 reads from `paths`; else as load_states().
void load_states(Meeting& meeting, Driver& driver, const std::string& folder, const CheckpointPaths& paths,
                 const ReplicaChecksum& checksum, Replica& replica, Recipe* recipe);

}  // namespace stretto
