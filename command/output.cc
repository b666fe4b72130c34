#include "command/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"

namespace stretto::command {

void Output::add_option(CommandLine& line) {
  line.flag("--json", "FILE",
            "One JSON object on standard output, everything else on standard error; or the object in FILE, everything "
            "else as usual.",
            [this](std::string_view option, const std::string& text) {
              json_ = true;
              file_ = text;
              if (!text.empty()) require_writable_file(option, text);
            });
}

void Output::say(const std::string& text) const {
  std::FILE* out = json_ && file_.empty() ? stderr : stdout;
  fmt::print(out, "{}\n", text);
  std::fflush(out);
}

void Output::emit(const nlohmann::ordered_json& object) const {
  if (!json_) return;
  // Names come from the command line: what is not UTF-8 there must not keep a result from being printed.
  const std::string dump = object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (file_.empty()) {
    const bool written = std::fwrite(dump.data(), 1, dump.size(), stdout) == dump.size() && std::fflush(stdout) == 0;
    if (!written) throw Failure({Errc::io, "the JSON object cannot be written to standard output"});
    return;
  }
  std::ofstream file(file_, std::ios::trunc);
  file << dump << std::flush;
  if (!file) throw Failure({Errc::io, fmt::format("{}: cannot be written ({})", file_, std::strerror(errno))});
}

void require_writable_file(std::string_view option, const std::string& file) {
  if (std::ofstream(file, std::ios::app)) return;
  throw UsageError(fmt::format("{}={}: cannot be written ({}); expected a file in a folder that exists", option, file,
                               std::strerror(errno)));
}

void require_writable_folder(std::string_view option, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string reason;
  if (!std::filesystem::is_directory(folder)) {
    reason = error ? error.message() : "not a folder";
  } else if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    reason = std::strerror(errno);
  }
  if (reason.empty()) return;
  throw UsageError(fmt::format("{} {}: cannot be written ({}); expected a folder to create, or one of yours", option,
                               folder, reason));
}

}  // namespace stretto::command
