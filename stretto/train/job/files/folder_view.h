#pragma once

#include <string>
#include <vector>

#include "stretto/engine/driver.h"
#include "stretto/train/replica/meeting.h"
#include "stretto/transport/members.h"

namespace stretto {

/// Which ranks of a job see the folder that rank 0 writes to. The ranks of a host that do not see it have a *keeper*,
/// the lowest of them: its folder of the same path takes the files of all of them. Fixed after construction.
class FolderView {
 public:
  explicit FolderView(int ranks) : keeper_(static_cast<std::size_t>(ranks), -1) {}  ///< all see it
  /// `sees`: by rank; rank 0 does.
  FolderView(const Members& members, const std::vector<bool>& sees);

  int ranks() const { return static_cast<int>(keeper_.size()); }  ///< of the job
  bool seen_by_all() const { return keepers_.empty(); }
  bool seen_by(int rank) const { return keeper_of(rank) < 0; }
  int keeper_of(int rank) const { return keeper_[static_cast<std::size_t>(rank)]; }  ///< −1: the rank sees the folder
  bool is_keeper(int rank) const { return keeper_of(rank) == rank; }
  const std::vector<int>& keepers() const { return keepers_; }  ///< ascending
  std::vector<int> kept_by(int keeper) const;                   ///< ranks, ascending, with the keeper

 private:
  std::vector<int> keeper_;  // of each rank
  std::vector<int> keepers_;
};

/// A file that rank 0 has in a folder while the other ranks look whether they see it: the name and the content are
/// drawn, so that neither another job's nor one that a host's file system remembers is taken for it.
class FolderProbe {
 public:
  FolderProbe() = default;  ///< none
  /// Writes it; none where the disk is full.
  explicit FolderProbe(const std::string& folder);
  /// The one of rank 0, by its words(), in the folder as this rank sees it. Not this process's to remove.
  static FolderProbe in(const std::string& folder, const std::string& words);
  ~FolderProbe();
  FolderProbe(FolderProbe&& other) noexcept;
  FolderProbe& operator=(FolderProbe&& other) noexcept;

  std::string words() const { return name_; }  ///< for the other ranks; empty: there is none
  /// Whether it is there. Looks once.
  bool is_seen() const;

 private:
  std::string folder_, name_;
  bool mine_ = false;
};

/// Which ranks see rank 0's `probe`; where it has none, all are taken to see the folder. Every rank calls, and all
/// return the same.
FolderView look_together(Meeting& meeting, Driver& driver, const Members& members, const FolderProbe& probe);

/// Returns where `fault` is empty on every rank. Elsewhere throws the same UsageError on every rank, with the first
/// fault, and the rank and the host that it is of where the ranks are on several hosts.
void require_no_fault(Meeting& meeting, Driver& driver, const Members& members, const std::string& fault);

}  // namespace stretto
