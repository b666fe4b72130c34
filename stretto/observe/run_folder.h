#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/observe/line_file.h"

namespace stretto {

/// The folder that a run leaves behind: config.json, records-<rank>.jsonl, summary.json, trace.json.
class RunFolder {
 public:
  /// Makes the folder and those above it, and removes what an earlier run left in it under the names above. Throws
  /// UsageError, in one line, if it cannot be made or written.
  static RunFolder create(const std::string& path);
  /// One that is there, with all that is in it. Errc::bad_input if there is none.
  static Result<RunFolder> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const;
  std::string records_file(int rank) const;
  std::string trace_file(int rank) const;  ///< part of trace.json while the run lasts

  /// Writes a whole file or leaves the old one: to a temporary name, then renamed. Errc::io names file and reason.
  Result<void> write(std::string_view name, std::string_view content) const;
  Result<void> write_config(std::string_view json) const { return write("config.json", json); }
  Result<void> write_summary(std::string_view json) const { return write("summary.json", json); }
  /// Errc::bad_input if it is not there.
  Result<std::string> read(std::string_view name) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

/// What one rank did in one of its own steps.
struct StepRecord {
  std::uint64_t step = 0;  ///< its own
  int rank = 0;
  std::uint64_t round = 0;  ///< the next one when it deposited
  std::uint64_t base = 0;   ///< rounds in the weights it computed on
  std::uint64_t batch = 0;  ///< number in the whole job
  std::uint64_t epoch = 0;  ///< data epoch
  std::uint64_t samples = 0;
  std::uint64_t units = 0;  ///< of work
  double loss = 0;          ///< not finite: written as null
  Duration begin{0};        ///< since the start of the run
  Duration computed{0};     ///< really
  Duration paced{0};        ///< slept: emulated pace
  Duration delayed{0};      ///< slept: injected
  Duration waited{0};       ///< inside exchange
  int rounds_applied = 0;   ///< in that exchange
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
  Result<void> complete() const { return file_.complete(); }

 private:
  LineFile file_;
};

/// Writes `content` to `path` as RunFolder::write does.
Result<void> write_whole_file(const std::string& path, std::string_view content);

}  // namespace stretto
