#include "stretto/observe/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/base/files/input_file.h"

namespace stretto {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UsageError(text("output folder '", path, "' is not writable: ", why,
                        "; expected a folder that can be made and written, such as runs/first"));
}

constexpr std::string_view kNames[] = {"config.json",     "summary.json", "trace.json",         "checkpoint.json",
                                       "prediction.json", "curves.csv",   "curves-batches.svg", "curves-time.svg",
                                       "waiting.svg",     "report.html"};

/// `name` is `before`, a number, `after`.
bool is_numbered(std::string_view name, std::string_view before, std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size()) return false;
  const auto number = name.substr(before.size(), name.size() - before.size() - after.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view without_part(std::string_view name) {
  constexpr std::string_view kPart = ".part";
  return name.ends_with(kPart) ? name.substr(0, name.size() - kPart.size()) : name;
}

bool is_state(std::string_view name) {
  const std::string_view whole = without_part(name);
  return is_numbered(whole, "stretto-state-", ".pt") || is_numbered(whole, "stretto-recipe-", ".bin");
}

bool is_of_a_run(std::string_view name) {
  const std::string_view whole = without_part(name);
  return std::find(std::begin(kNames), std::end(kNames), whole) != std::end(kNames) || is_state(name) ||
         is_numbered(whole, "records-", ".jsonl") || is_numbered(whole, "trace-", ".jsonl");
}

/// Whether `content` is a config.json that a run has written.
bool is_config(const Result<std::string>& content) {
  if (!content) return false;
  const auto json = nlohmann::json::parse(*content, nullptr, false);
  if (!json.is_object()) return false;
  const auto has = [&json](const char* key) { return json.contains(key); };
  return has("workload") && has("algorithm") && has("ranks") && has("max_lag") && has("checkpoint_every");
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> names_of_a_run(const RunFolder& folder) {
  std::vector<std::string> names = names_in(folder.path());
  std::erase_if(names, [](const std::string& name) { return !is_of_a_run(name); });
  return names;
}

/// config.json last: it marks them as those of a run, so it stays until they are gone.
void remove_all(const RunFolder& folder, const std::vector<std::string>& names) {
  const Disk disk;
  for (const std::string& name : names) {
    if (name != "config.json") disk.remove(folder.file(name));
  }
  disk.remove(folder.file("config.json"));
}

void remove_earlier_run(const RunFolder& folder) {
  const std::vector<std::string> names = names_of_a_run(folder);
  if (names.empty()) return;
  if (!is_config(folder.read("config.json"))) {
    throw UsageError(text("output folder '", folder.path(), "' holds ", names.front(),
                          ", and no config.json of a run: expected a new folder, or one of an earlier run"));
  }
  remove_all(folder, names);
}

/// Cuts the file before its first line that is not whole or is of step `end` or a later one.
void cut_at_step(const std::string& path, std::uint64_t end) {
  auto in = open_file(path, FileContent::bytes);  // what is cut by its bytes
  if (!in) return;
  std::uintmax_t keep = 0;
  for (std::string line; std::getline(in->stream(), line) && !in->stream().eof(); keep += line.size() + 1) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto step = json.is_object() ? json.find("step") : json.end();
    if (step == json.end() || !step->is_number_unsigned() || step->get<std::uint64_t>() >= end) break;
  }
  std::error_code ignored;
  fs::resize_file(path, keep, ignored);
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

RunFolder RunFolder::create(const std::string& path) {
  RunFolder folder = make(path);
  remove_earlier_run(folder);
  return folder;
}

RunFolder RunFolder::make(const std::string& path) {
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
  return folder;
}

RunFolderLock::RunFolderLock(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse(path, error.message());
  folder_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) return;  // who writes there says why not
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (::flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (std::chrono::steady_clock::now() >= until) {
      ::close(folder_);
      throw UsageError(text("output folder '", path, "': another job writes there; expected a folder for each job"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

RunFolderLock::~RunFolderLock() {
  if (folder_ >= 0) ::close(folder_);
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

Result<void> RunFolder::write(std::string_view name, std::string_view content, const Disk& disk) const {
  return write_whole_file(file(name), content, disk);
}

Result<std::string> RunFolder::read(std::string_view name) const {
  return read_whole_file(stored_as(file(name)));
}

void RunFolder::remove_states_but(std::span<const std::string> keep, const Disk& disk) const {
  for (const std::string& name : names_in(path_)) {
    if (is_state(name) && std::ranges::count(keep, name) == 0) disk.remove(file(name));
  }
}

void RunFolder::go_back_to(std::span<const std::uint64_t> steps, std::span<const std::string> states) const {
  const Disk disk;
  for (const std::string& name : names_in(path_)) {
    if (is_of_a_run(name) && name != without_part(name)) disk.remove(file(name));
  }
  remove_states_but(states, disk);
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    cut_records(static_cast<int>(rank), steps[rank]);
  }
}

void RunFolder::cut_records(int rank, std::uint64_t end) const {
  cut_at_step(records_file(rank), end);
}

void RunFolder::remove_run() const {
  remove_all(*this, names_of_a_run(*this));
  std::error_code is_used;
  fs::remove(path_, is_used);
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
  append_number(out, "messages", record.messages);
  append_number(out, "bytes", record.bytes);
  return out.append("}");
}

namespace {

using nlohmann::json;

/// Reads the numbers of one object, and remembers the first that is not there.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  template <class Whole>
  void whole(const char* key, Whole& out) {
    constexpr Whole kMost = std::numeric_limits<Whole>::max();
    const auto found = object_.find(key);
    const bool fits = found != object_.end() && found->is_number_unsigned() &&
                      found->template get<std::uint64_t>() <= static_cast<std::uint64_t>(kMost);
    if (fits) {
      out = found->template get<Whole>();
    } else {
      lacks(text("a whole number from 0 to ", kMost, " as '", key, "'"));
    }
  }

  void time(const char* key, Duration& out) {
    const auto found = object_.find(key);
    const double length = found != object_.end() && found->is_number() ? found->get<double>() : -1;
    if (length >= 0 && length < kLongest) {
      out = Duration(std::llround(length * 1e9));  // to the nanosecond, as it was written
    } else {
      lacks(text("seconds from 0 to below ", kLongest, " as '", key, "'"));
    }
  }

  /// What is not finite was written as null.
  void loss(const char* key, double& out) {
    const auto found = object_.find(key);
    const bool number = found != object_.end() && found->is_number();
    out = number ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
  }

  /// What was expected; empty where all are there.
  const std::string& missing() const { return missing_; }

 private:
  static constexpr double kLongest = 1e9;  // seconds; what a Duration holds

  void lacks(std::string what) {
    if (missing_.empty()) missing_ = std::move(what);
  }

  const json& object_;
  std::string missing_;
};

/// The record in a line; or what is expected of it, "" where the line is no object at all.
std::optional<StepRecord> record_in(const json& line, std::string& missing) {
  if (!line.is_object()) return std::nullopt;
  StepRecord record;
  Fields fields(line);
  fields.whole("step", record.step);
  fields.whole("rank", record.rank);
  fields.whole("round", record.round);
  fields.whole("base", record.base);
  fields.whole("batch", record.batch);
  fields.whole("epoch", record.epoch);
  fields.whole("samples", record.samples);
  fields.whole("units", record.units);
  fields.loss("loss", record.loss);
  fields.time("begin", record.begin);
  fields.time("computed", record.computed);
  fields.time("paced", record.paced);
  fields.time("delayed", record.delayed);
  fields.time("waited", record.waited);
  fields.whole("rounds_applied", record.rounds_applied);
  fields.whole("messages", record.messages);
  fields.whole("bytes", record.bytes);
  missing = fields.missing();
  return missing.empty() ? std::optional(record) : std::nullopt;
}

}  // namespace

Result<LinesFound> read_step_records(const std::string& path, TakeStepRecord take) {
  if (std::error_code unknown; !std::filesystem::exists(stored_as(path), unknown)) return LinesFound::no_file;
  auto opened = open_file(stored_as(path));
  if (!opened) return opened.error();
  std::istream& file = opened->stream();
  std::string line;
  bool cut = false;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    const bool last = file.eof();  // without the end of its line
    const auto wrong = [&](const std::string& what) {
      return Error{Errc::bad_input, text("'", path, "' line ", number, ": ", what)};
    };
    std::string missing;
    const auto record = record_in(json::parse(line, nullptr, false), missing);
    if (!record && last) {
      cut = true;
      break;
    }
    if (!record && missing.empty()) return wrong("no record of a step");
    if (!record) return wrong(text("no record of a step: expected ", missing));
    const std::string fault = take(*record);
    if (!fault.empty()) return wrong(fault);
  }
  if (const auto whole = opened->whole(); !whole && !opened->is_cut()) return whole.error();
  return cut || opened->is_cut() ? LinesFound::cut : LinesFound::all;
}

}  // namespace stretto
