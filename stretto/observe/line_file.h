#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto {

/// How much of the file that a LineFile has written is there.
enum class LinesFound {
  no_file,
  cut,  ///< of a run that was killed, or that still writes: a line is not whole, or the end is missing
  all,
};

/// A file that grows by lines and must never stop a training. Lines that cannot be written (disk full, quota, no such
/// folder) are lost and counted, and the reason is kept. The file always holds whole lines. Never throws. One thread.
class LineFile {
 public:
  enum class Mode { replace, append };

  explicit LineFile(std::string path, Mode mode = Mode::replace);
  ~LineFile();  ///< flushes
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Adds a line, given without line break. Lines are kept in memory until there are about 64 KiB of them, or until
  /// flush().
  void append(std::string_view line) noexcept;
  void flush() noexcept;

  const std::string& path() const { return path_; }
  /// Lines that could not be written so far.
  std::uint64_t lost() const { return lost_; }
  /// Why the first of them could not be; empty where none is lost.
  std::string why_lost() const;
  /// Success, or Errc::io that says how many lines were lost and why: for one sentence at the end.
  Result<void> complete() const;

 private:
  void lose(std::string_view lines, int reason) noexcept;

  const std::string path_;
  int file_ = -1;
  std::string buffer_;
  std::uint64_t lost_ = 0;
  int reason_ = 0;  // errno of the first loss
};

}  // namespace stretto
