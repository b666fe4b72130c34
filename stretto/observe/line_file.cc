#include "stretto/observe/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace stretto {
namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;

}  // namespace

LineFile::LineFile(std::string path, Mode mode) : path_(std::move(path)) {
  const int how = mode == Mode::append ? O_APPEND : O_TRUNC;
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (file_ < 0) reason_ = errno;
  buffer_.reserve(2 * kBufferBytes);
}

LineFile::~LineFile() {
  flush();
  if (file_ >= 0) ::close(file_);
}

void LineFile::append(std::string_view line) noexcept {
  try {
    buffer_.reserve(buffer_.size() + line.size() + 1);  // so that a line is added whole or not at all
    buffer_.append(line).push_back('\n');
  } catch (const std::bad_alloc&) {
    ++lost_;
    if (reason_ == 0) reason_ = ENOMEM;
  }
  if (buffer_.size() >= kBufferBytes) flush();
}

void LineFile::flush() noexcept {
  std::string_view rest = buffer_;
  if (file_ < 0) lose(std::exchange(rest, {}), reason_);
  const off_t start = file_ < 0 ? 0 : ::lseek(file_, 0, SEEK_END);
  while (!rest.empty()) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written > 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno != EINTR) {
      const int reason = errno;
      // Cuts the last line off if only a part of it fitted.
      const std::string_view fitted = std::string_view(buffer_).substr(0, buffer_.size() - rest.size());
      const std::size_t whole = fitted.rfind('\n') + 1;  // npos + 1 = 0
      const bool cut =
          whole == fitted.size() || (start >= 0 && ::ftruncate(file_, start + static_cast<off_t>(whole)) == 0);
      lose(std::string_view(buffer_).substr(cut ? whole : fitted.size()), reason);
      break;
    }
  }
  buffer_.clear();
}

void LineFile::lose(std::string_view lines, int reason) noexcept {
  lost_ += static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  if (reason_ == 0) reason_ = reason;
}

std::string LineFile::why_lost() const {
  return lost_ == 0 ? std::string() : std::strerror(reason_);
}

Result<void> LineFile::complete() const {
  if (lost_ == 0) return {};
  return Error{Errc::io, text(lost_, " records of '", path_, "' were lost: ", why_lost())};
}

}  // namespace stretto
