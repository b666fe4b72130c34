#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/observe/line_file.h"
#include "stretto/observe/whole_file.h"

namespace stretto {

/// The folder of a run: config.json, records-<rank>.jsonl, summary.json, prediction.json, trace.json, curves.csv with
/// two drawings of it, waiting.svg, report.html, checkpoint.json and the states that it names:
/// stretto-state-<batches>.pt, of the replica, and stretto-recipe-<batches>.bin, of an algorithm that has one.
class RunFolder {
 public:
  /// Makes the folder and those above it. Where config.json is that of a run, removes the files of that run under the
  /// names above, and nothing else. Throws UsageError, in one line, if the folder cannot be made or written, or holds
  /// one of these names and no config.json of a run.
  static RunFolder create(const std::string& path);
  /// The first half of create(): makes the folder and those above it, and leaves what is in it. Throws UsageError if it
  /// cannot be made or written.
  static RunFolder make(const std::string& path);
  /// Opens a folder that is there, with all that is in it. Errc::bad_input if there is none.
  static Result<RunFolder> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const;
  std::string records_file(int rank) const;
  std::string trace_file(int rank) const;  ///< part of trace.json while the run lasts

  /// As write_whole_file().
  Result<void> write(std::string_view name, std::string_view content, const Disk& disk = Disk()) const;
  Result<void> write_config(std::string_view json) const { return write("config.json", json); }
  Result<void> write_summary(std::string_view json) const { return write("summary.json", json); }
  /// Also where it has been compressed since, to a file *.gz. Errc::bad_input if it is not there.
  Result<std::string> read(std::string_view name) const;

  /// Removes every state but those in `keep`, by name.
  void remove_states_but(std::span<const std::string> keep, const Disk& disk = Disk()) const;
  /// For a run that goes on from a checkpoint, whose state files are `states` and at which rank r had done steps[r]
  /// steps of its own: removes unfinished files, and the records of later steps.
  void go_back_to(std::span<const std::uint64_t> steps, std::span<const std::string> states) const;
  /// Removes a rank's records of its steps from `end` on.
  void cut_records(int rank, std::uint64_t end) const;
  /// Removes the files of the run, as create() would, and the folder if nothing else is in it.
  void remove_run() const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

/// Keeps other jobs from writing to a run folder: as long as it lives, and every process that was forked meanwhile.
class RunFolderLock {
 public:
  /// Makes the folder and those above it. Waits for the ranks of a job that was killed, which soon end, for up to
  /// kPatience. Throws UsageError, in one line, if the folder cannot be made, or another job has it then. On a file
  /// system that knows no locks it keeps nobody out.
  explicit RunFolderLock(const std::string& path);
  ~RunFolderLock();
  RunFolderLock(const RunFolderLock&) = delete;
  RunFolderLock& operator=(const RunFolderLock&) = delete;

  static constexpr Duration kPatience = std::chrono::seconds(3);

 private:
  int folder_ = -1;  // open as long as it is locked
};

/// One step of one rank.
struct StepRecord {
  std::uint64_t step = 0;  ///< its own
  int rank = 0;
  std::uint64_t round = 0;  ///< the next one when it deposited
  std::uint64_t base = 0;   ///< rounds in the weights it computed on
  std::uint64_t batch = 0;  ///< number in the whole job
  std::uint64_t epoch = 0;  ///< data epoch
  std::uint64_t samples = 0;
  std::uint64_t units = 0;     ///< of work
  double loss = 0;             ///< not finite: written as null
  Duration begin{0};           ///< since the start of the run
  Duration computed{0};        ///< really
  Duration paced{0};           ///< slept: emulated pace
  Duration delayed{0};         ///< slept: injected
  Duration waited{0};          ///< inside exchange, and in the pass for weights
  int rounds_applied = 0;      ///< in that exchange
  std::uint64_t messages = 0;  ///< that this rank has sent since the record before, for itself or for others
  std::uint64_t bytes = 0;     ///< of them
};

/// One JSON object in one line.
std::string to_json(const StepRecord& record);

/// Writes the records of one rank. Loses them, not the training, on a full disk.
class RecordWriter {
 public:
  RecordWriter(const RunFolder& folder, int rank, LineFile::Mode mode = LineFile::Mode::replace)
      : file_(folder.records_file(rank), mode) {}

  void add(const StepRecord& record) { file_.append(to_json(record)); }
  void flush() noexcept { file_.flush(); }
  std::uint64_t lost() const { return file_.lost(); }
  std::string why_lost() const { return file_.why_lost(); }
  Result<void> complete() const { return file_.complete(); }

 private:
  LineFile file_;
};

/// Takes a record, and says what is wrong with it; an empty text where nothing is.
using TakeStepRecord = FunctionRef<std::string(const StepRecord&)>;

/// Hands over the records that a RecordWriter has written, in the file's order, a line in memory at a time. A last line
/// that is not whole is left out. Errc::bad_input names the file, the line and its fault; Errc::io if it cannot be
/// read.
Result<LinesFound> read_step_records(const std::string& path, TakeStepRecord take);

}  // namespace stretto
