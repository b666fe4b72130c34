#pragma once

#include <fstream>
#include <string>

#include "stretto/base/error.h"

namespace stretto {

/// Opens a file that somebody has named, to read it. What is there and is no regular file is refused before it is
/// opened: a pipe waits for who writes, a device has no end, a folder opens and has no lines. Errc::io names the file
/// and the reason.
Result<std::ifstream> open_file(const std::string& path);

/// Whether open_file() would open it, for who opens it by other means. Errc::io likewise.
Result<void> check_file(const std::string& path);

}  // namespace stretto
