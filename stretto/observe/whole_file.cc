#include "stretto/observe/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace stretto {
namespace {

/// 0, or why not.
int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written > 0) {
      content.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

int Disk::write(const std::string& path, std::string_view content) const {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  const int reason = write_all(file, content);
  return ::close(file) != 0 && reason == 0 ? errno : reason;
}

int Disk::sync(const std::string& path) const {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  const int reason = ::fsync(file) != 0 && errno != EINVAL ? errno : 0;
  ::close(file);
  return reason;
}

int Disk::rename(const std::string& from, const std::string& to) const {
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int Disk::remove(const std::string& path) const {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? 0 : errno;
}

Result<void> write_whole_file(const std::string& path, std::string_view content, const Disk& disk) {
  std::error_code unknown;
  const std::filesystem::file_status there = std::filesystem::status(path, unknown);
  const bool replaced = !exists(there) || is_regular_file(there) || is_directory(there);
  const std::string part = replaced ? path + ".part" : path;
  int reason = disk.write(part, content);
  if (replaced) {
    if (reason == 0) reason = disk.sync(part);
    if (reason == 0) reason = disk.rename(part, path);
    if (reason != 0) static_cast<void>(disk.remove(part));
    if (reason == 0) reason = disk.sync(folder_of(path));
  }
  if (reason == 0) return {};
  return Error{Errc::io, text("cannot write '", path, "': ", std::strerror(reason))};
}

Result<std::string> read_whole_file(const std::string& path, FileContent content) {
  return read_all(open_file(path, content));
}

}  // namespace stretto
