#pragma once

#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/base/files/input_file.h"

namespace stretto {

/// The operations on files that must outlive a power cut, one a call, so that a test can watch the operations and cut
/// the power after any of them. Each call returns 0, or errno. Thread-safe.
class Disk {
 public:
  virtual ~Disk() = default;

  /// Creates or empties the file and writes all of `content`. A power cut before sync(path) may lose any part of it.
  virtual int write(const std::string& path, std::string_view content) const;
  /// Of a file: its content stays from now on. Of a folder: the names in it do. Nothing where the file system cannot.
  virtual int sync(const std::string& path) const;
  virtual int rename(const std::string& from, const std::string& to) const;
  /// Nothing if there is no such file.
  virtual int remove(const std::string& path) const;
};

/// Writes a whole file or leaves the old one, also when the power is cut: to `path`.part, synced, then renamed, and the
/// folder synced. What is no file, as a pipe, a terminal or /dev/null, is written to as it is. Errc::io names file and
/// reason; nothing is left beside it then.
Result<void> write_whole_file(const std::string& path, std::string_view content, const Disk& disk = Disk());

/// As read_all(open_file()).
Result<std::string> read_whole_file(const std::string& path, FileContent content = FileContent::text);

}  // namespace stretto
