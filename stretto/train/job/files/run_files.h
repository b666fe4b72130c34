#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stretto/membership/world.h"
#include "stretto/observe/run_folder.h"
#include "stretto/train/job/files/files_elsewhere.h"
#include "stretto/train/job/files/folder_view.h"
#include "stretto/train/job/files/line_gatherer.h"

namespace stretto {

/// The options on which the files of a run depend.
struct RunFilesOptions {
  std::string out;     ///< the run folder; empty: none
  std::string resume;  ///< the folder of the checkpoint where the run goes on; empty: it begins
  bool local = false;  ///< ranks that do not see rank 0's folder keep their files
  std::string config;  ///< the content of config.json
  std::function<void(const std::string& line)> tell = {};  ///< what could not be written, and what stays where
};

/// The files of a run, whichever of its ranks see the folder of rank 0. While it runs each rank writes into the folder
/// of that path on its own host (RankFiles). At the end those of hosts that do not see rank 0's are brought there, and
/// their folders removed, unless the options are local. One on each rank; where a process forks its ranks, it has the
/// one of all. Application thread.
class RunFiles {
 public:
  /// A checkpoint: of each rank the steps it had done, and the names of the files with its states.
  struct Checkpointed {
    std::vector<std::uint64_t> steps;
    std::vector<std::string> states;
  };

  RunFiles(RunFilesOptions options, int ranks);

  /// Of ranks that this process forks: makes the folder, or, where the run goes on in the folder of its checkpoint
  /// `from`, takes it back to there. No other job writes to it as long as this lives. Throws UsageError, in one line,
  /// for a folder that cannot be used.
  void prepare(const Checkpointed* from);
  /// The same of a run that goes on there, under another launcher: it takes the folder as it is.
  void come_back();
  /// prepare() of ranks that something else has started, for all of them: which see rank 0's folder is agreed on. Every
  /// rank calls. What rank 0's options say of `out` and `local` counts on all. Throws the same UsageError on every
  /// rank, which names rank and host where there are several; then nothing has been made.
  void share(Meeting& meeting, Driver& driver, World& world, const Checkpointed* from);

  /// Of a process that comes to a job whose launcher has prepared the folder. On a host that does not see it the files
  /// of the process are kept in a folder of the same path, and stay there.
  void come();

  /// This rank's folder; empty: none.
  const std::string& path() const { return options_.out; }
  /// Whether every rank sees the folder of rank 0, or there is none.
  bool all_in_one_folder() const { return view_.seen_by_all(); }
  /// Ends it for ranks that share() has prepared: every rank calls, after it has flushed its files. Returns the lines
  /// that rank 0 could not write. Throws Failure.
  GatheredLines bring_together(Meeting& meeting, Driver& driver, World& world);
  /// On rank 0, after the ranks have ended: makes one trace of those in the folder.
  void merge_traces() const;
  /// The same: writes the summary, as JSON.
  void finish(const std::string& summary) const;
  /// On rank 0: the files that stay where they are.
  const std::vector<FilesElsewhere>& elsewhere() const { return elsewhere_; }

 private:
  struct Words;
  /// Makes the folder, if there is none, and keeps other jobs out of it.
  void reserve();
  /// Removes what is in the reserved folder of an earlier run; or, where there is `from`, of this one after it.
  void begin(const Checkpointed* from);
  /// Removes what reserve() and begin() have made.
  void undo();
  /// On every rank, where rank 0 cannot use its folder: throws what all throw.
  [[noreturn]] void refuse(Meeting& meeting, Driver& driver, const Members& members, const std::string& why) const;
  GatheredLines gather(Meeting& meeting, Driver& driver, World& world);
  void leave_elsewhere(Meeting& meeting, Driver& driver, int rank);
  void merge_traces_of(const std::vector<int>& ranks) const;

  RunFilesOptions options_;
  FolderView view_;
  std::vector<std::string> hosts_;  // of each rank, where some do not see the folder
  std::optional<RunFolderLock> lock_;
  std::optional<RunFolder> folder_;  // of the ranks that prepare one: rank 0 and keepers
  bool is_new_ = false;              // the run in it
  std::vector<FilesElsewhere> elsewhere_;
};

}  // namespace stretto
