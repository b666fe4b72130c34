#include "stretto/train/job/files/rank_0_checkpoint.h"

#include "stretto/base/machine/host_name.h"
#include "stretto/base/words.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

std::string whole(const std::string& path) {
  return path.empty() ? std::string() : read_whole_file(path, FileContent::bytes).or_throw();
}

}  // namespace

bool rank_0_has_checkpoint(Meeting& meeting, Driver& driver, const std::string& folder) {
  const bool here = !folder.empty() && has_checkpoint(folder);
  const auto all = meeting.gather(driver, {here ? 1u : 0u, Hash64::of(folder)});
  if (all[0][0] != 0) return true;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank][0] == 0 || all[rank][1] != all[0][1]) continue;
    const auto hosts = meeting.gather_texts(driver, host_name());  // every rank has seen the same
    throw UsageError(text("rank 0, on ", hosts[0], ", sees no checkpoint in '", folder, "', and rank ", rank, ", on ",
                          hosts[rank], ", sees one: rank 0 reads it; expected the folder on ", hosts[0]));
  }
  return false;
}

void load_states(FunctionRef<std::string(const std::string& path)> content, const std::string& folder,
                 const CheckpointPaths& paths, const ReplicaChecksum& checksum, Replica& replica, Recipe* recipe) {
  replica.load(content(paths.replica));
  if (replica.checksum() != checksum) {
    refuse_checkpoint(folder, "the weights in the state that it names are not those that were saved");
  }
  const std::string state = content(paths.recipe);
  if (recipe != nullptr && !state.empty()) recipe->set_state(state);
}

void load_states(const std::string& folder, const CheckpointPaths& paths, const ReplicaChecksum& checksum,
                 Replica& replica, Recipe* recipe) {
  load_states([](const std::string& path) { return whole(path); }, folder, paths, checksum, replica, recipe);
}

void load_states(Meeting& meeting, Driver& driver, const std::string& folder, const CheckpointPaths& paths,
                 const ReplicaChecksum& checksum, Replica& replica, Recipe* recipe) {
  const auto from_rank_0 = [&](const std::string& path) {
    return meeting.broadcast_text(driver, [&path] { return whole(path); });
  };
  load_states(from_rank_0, folder, paths, checksum, replica, recipe);
}

}  // namespace stretto
