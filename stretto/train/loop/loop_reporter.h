#pragma once

#include <map>
#include <optional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/engine/engine.h"
#include "stretto/observe/run_folder.h"
#include "stretto/train/job/files/folder_view.h"
#include "stretto/train/loop/loop_report.h"

namespace stretto {

/// Writes one rank's part of what an optimizer leaves behind in STRETTO_OUT, and nothing where no folder is given. What
/// cannot be written is said once on stderr, and costs the report, not the training. One thread.
class LoopReporter {
 public:
  /// `out`: the folder; empty: none. `index`: of the optimizer among those that the program makes.
  LoopReporter(const std::string& out, int index, int rank);

  /// Agrees on which ranks see the folder of rank 0, where they are on several hosts. Every rank that has a folder
  /// calls, before its first step: no rank returns before all have come.
  void look_together(Meeting& meeting, Driver& driver, const Members& members);
  /// Brings the records of ranks that do not see the folder of rank 0 there. The same ranks call, after finish().
  /// Throws Failure.
  void bring_together(Engine& engine, Meeting& meeting, Driver& driver);

  bool wanted() const { return records_.has_value(); }
  /// A step of this rank that began so long after the start of the job.
  void step(Duration begin, Duration computed, Duration waited);
  /// A number of the user's own, the last of its name counts; of rank 0.
  void record(const std::string& name, double value);
  /// No more steps come. On rank 0 with the report, without what was recorded.
  void finish(const LoopReport& report);

 private:
  void write();
  void complain(const Error& error);

  const int rank_;
  std::string folder_;
  std::optional<RecordWriter> records_;
  std::optional<FolderView> view_;  // none: all see the folder
  std::uint64_t steps_ = 0;
  std::map<std::string, double> recorded_;
  std::optional<LoopReport> report_;
  bool complained_ = false;
};

}  // namespace stretto
