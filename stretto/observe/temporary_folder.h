#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto {

/// A folder of its own among the temporary files or in another folder, and all that is put into it; gone with the
/// object.
class TemporaryFolder {
 public:
  /// Throws Failure, Errc::io, where none can be made.
  explicit TemporaryFolder(const std::filesystem::path& within = std::filesystem::temp_directory_path()) {
    std::string name = (within / "stretto-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Failure({Errc::io, text("no temporary folder '", name, "': ", std::strerror(errno))});
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }

  /// Writes a file in it, with the folders above, and returns its path.
  std::string write(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace stretto
