#include "stretto/base/files/input_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace stretto {

Result<void> check_file(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  if (is_directory(status)) return Error{Errc::io, text("cannot read '", path, "': it is a folder")};
  if (exists(status) && !is_regular_file(status))
    return Error{Errc::io, text("cannot read '", path, "': it is no file")};
  return {};
}

Result<std::ifstream> open_file(const std::string& path) {
  if (const auto checked = check_file(path); !checked) return checked.error();
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{Errc::io, text("cannot open '", path, "': ", std::strerror(errno != 0 ? errno : EIO))};
  return file;
}

}  // namespace stretto
