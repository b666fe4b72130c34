#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "stretto/base/error.h"

namespace stretto {

enum class FileContent {
  text,    ///< of UTF-8: a byte order mark is skipped, and what gzip has compressed is unpacked
  packed,  ///< of UTF-8, too, but as it is stored: for a copy that is read as text later
  bytes,   ///< as they are
};

/// A file that is read from its begin to its end.
class InputFile {
 public:
  InputFile(InputFile&&) noexcept;
  ~InputFile();

  /// Ends where reading fails, as at the end: then whole() says why.
  std::istream& stream() { return *stream_; }
  /// An Error that names the file where reading has failed.
  Result<void> whole() const;
  /// Whether it has failed as what gzip of a killed program has written, or at a byte of 0, as power cuts leave it.
  bool is_cut() const;
  /// Bytes of the file that have been read, compressed ones where it is.
  std::uint64_t consumed() const;

 private:
  friend Result<InputFile> open_file(const std::string& path, FileContent content);
  friend Result<InputFile> open_standard_input(FileContent content);
  class Buffer;

  static Result<InputFile> open(std::unique_ptr<Buffer> buffer, FileContent content);
  explicit InputFile(std::unique_ptr<Buffer> buffer);

  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<std::istream> stream_;
};

/// Opens a file that somebody has named, to read it. What is there and is no regular file is refused before it is
/// opened: a pipe waits for who writes, a device has no end, a folder opens and has no lines. Errc::io names the file
/// and the reason; Errc::bad_input likewise where text is expected, and it is in UTF-16 or compressed by something else
/// than gzip, or holds a byte of 0: here where that is in its first line, and else when reading has come to it.
Result<InputFile> open_file(const std::string& path, FileContent content = FileContent::text);

/// The name under which a file lies that may have been compressed since: `path`, or `path`.gz where only that is there.
std::string stored_as(const std::string& path);

/// The most that is read of standard input, which may be a pipe without an end and is then held in memory or copied to
/// a disk. Traces and jobs have some hundred MB at most; a file of any size can be named.
inline constexpr std::uint64_t kMostOfStandardInput = std::uint64_t{1} << 30;

/// Opens standard input, of whatever kind that is. Errors name it so; Errc::bad_input where more comes than
/// kMostOfStandardInput.
Result<InputFile> open_standard_input(FileContent content = FileContent::text);

/// All of a file or of standard input. Errors as of open_file() and InputFile::whole(), but Errc::bad_input where the
/// file is not there.
Result<std::string> read_all(Result<InputFile> file);

}  // namespace stretto
