#include "command/cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/observe/whole_file.h"

namespace stretto::command {

namespace {

constexpr std::size_t kLongestWord = 200;
constexpr std::size_t kKept = 60;

// A character of several bytes stays whole or goes.
std::string_view beginning(std::string_view word) {
  std::size_t end = kKept;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80) --end;
  return word.substr(0, end);
}

std::string shown(std::string_view word) {
  if (word.size() <= kLongestWord) return std::string(word);
  if (word.ends_with(':')) return shown(word.substr(0, word.size() - 1)) + ':';
  return fmt::format("{}… ({} characters)", beginning(word), word.size());
}

std::string escaped(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
}

/// How many bytes the letter of UTF-8 has that `text` begins with; 0 where it begins with none.
std::size_t letter_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t bytes = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : 4;
  if (bytes > text.size() || (bytes == 4 && (first & 0xf8) != 0xf0)) return 0;
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::ranges::all_of(text.substr(1, bytes - 1), follows) ? bytes : 0;
}

}  // namespace

void print_to(std::FILE* stream, std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stream));
}

std::string one_line(std::string_view text) {
  std::string out, word;
  while (!text.empty()) {
    const std::size_t bytes = letter_bytes(text);
    if (text.front() == ' ') {
      out += shown(word) + ' ';
      word.clear();
    } else if (bytes == 0) {
      word += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else {
      word += bytes == 1 ? escaped(text.front()) : std::string(text.substr(0, bytes));
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out + shown(word);
}

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
