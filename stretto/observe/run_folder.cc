#include "stretto/observe/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace stretto {
namespace {

namespace fs = std::filesystem;

Error io_error(const std::string& path, int reason) {
  return {Errc::io, text("cannot write '", path, "': ", std::strerror(reason))};
}

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

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UsageError(text("output folder '", path, "' is not writable: ", why,
                        "; expected a folder that can be made and written, such as runs/first"));
}

bool is_of_an_earlier_run(const std::string& name) {
  const bool json = name.ends_with(".json") || name.ends_with(".jsonl");
  return name == "config.json" || name == "summary.json" || name == "trace.json" ||
         (json && (name.starts_with("records-") || name.starts_with("trace-")));
}

void append_number(std::string& out, std::string_view key, std::uint64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(out.empty() ? "{\"" : ",\"").append(key).append("\":").append(digits, end);
}

void append_seconds(std::string& out, std::string_view key, Duration value) {
  char digits[32];
  const int length = std::snprintf(digits, sizeof digits, "%.9g", seconds(value));
  out.append(",\"").append(key).append("\":").append(digits, static_cast<std::size_t>(length));
}

}  // namespace

Result<void> write_whole_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".part";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return io_error(path, errno);
  int reason = write_all(file, content);
  if (reason == 0 && ::fsync(file) != 0 && errno != EINVAL) reason = errno;
  if (::close(file) != 0 && reason == 0) reason = errno;
  if (reason == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) reason = errno;
  if (reason == 0) return {};
  ::unlink(temporary.c_str());
  return io_error(path, reason);
}

RunFolder RunFolder::create(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse(path, error.message());
  RunFolder folder(path);
  const std::string probe = folder.file(".writable");
  const int file = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  // A disk that is full costs the records; anything else is a mistake to tell before the first step.
  if (file < 0 && errno != ENOSPC && errno != EDQUOT) refuse(path, std::strerror(errno));
  if (file >= 0) ::close(file);
  fs::remove(probe, error);
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (is_of_an_earlier_run(entry.path().filename())) fs::remove(entry.path(), error);
  }
  return folder;
}

Result<RunFolder> RunFolder::open(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return Error{Errc::bad_input, text("run folder '", path, "': expected the folder that --out made; there is none")};
  }
  return RunFolder(path);
}

std::string RunFolder::file(std::string_view name) const {
  return text(path_, '/', name);
}
std::string RunFolder::records_file(int rank) const {
  return file(text("records-", rank, ".jsonl"));
}
std::string RunFolder::trace_file(int rank) const {
  return file(text("trace-", rank, ".jsonl"));
}

Result<void> RunFolder::write(std::string_view name, std::string_view content) const {
  return write_whole_file(file(name), content);
}

Result<std::string> RunFolder::read(std::string_view name) const {
  std::ifstream in(file(name), std::ios::binary);
  if (!in) return Error{Errc::bad_input, text("cannot read '", file(name), "': ", std::strerror(errno))};
  std::string content{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) return Error{Errc::io, text("cannot read '", file(name), "': ", std::strerror(errno))};
  return content;
}

std::string to_json(const StepRecord& record) {
  std::string out;
  out.reserve(320);
  append_number(out, "step", record.step);
  append_number(out, "rank", static_cast<std::uint64_t>(record.rank));
  append_number(out, "round", record.round);
  append_number(out, "base", record.base);
  append_number(out, "batch", record.batch);
  append_number(out, "epoch", record.epoch);
  append_number(out, "samples", record.samples);
  append_number(out, "units", record.units);
  char digits[40];
  const int length = std::snprintf(digits, sizeof digits, std::isfinite(record.loss) ? "%.9g" : "null", record.loss);
  out.append(",\"loss\":").append(digits, static_cast<std::size_t>(length));
  append_seconds(out, "begin", record.begin);
  append_seconds(out, "computed", record.computed);
  append_seconds(out, "paced", record.paced);
  append_seconds(out, "delayed", record.delayed);
  append_seconds(out, "waited", record.waited);
  append_number(out, "rounds_applied", static_cast<std::uint64_t>(record.rounds_applied));
  return out.append("}");
}

}  // namespace stretto
