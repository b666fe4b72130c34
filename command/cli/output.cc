#include "command/cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command/cli/print.h"
#include "stretto/base/error.h"
#include "stretto/observe/whole_file.h"

namespace stretto::command {

namespace fs = std::filesystem;

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
  print_to(out, fmt::format("{}\n", text));
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
  write_whole_file(file_, dump).or_throw();
}

void require_writable_file(std::string_view option, const std::string& file) {
  std::error_code unknown;
  const bool there = fs::exists(file, unknown);
  if (std::ofstream(file, std::ios::app)) {
    if (!there) fs::remove(file, unknown);
    return;
  }
  throw UsageError(fmt::format("{}={}: cannot be written ({}); expected a file in a folder that exists", option, file,
                               std::strerror(errno)));
}

Setter writable_file_into(std::string& out) {
  return [&out](std::string_view option, const std::string& file) {
    require_writable_file(option, file);
    out = file;
  };
}

void require_writable_folder(std::string_view option, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  std::string reason;
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown)) {
    reason = error ? error.message() : "not a folder";
  } else if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    reason = std::strerror(errno);
  }
  if (reason.empty()) return;
  throw UsageError(fmt::format("{} {}: cannot be written ({}); expected a folder to create, or one of yours", option,
                               folder, reason));
}

}  // namespace stretto::command
