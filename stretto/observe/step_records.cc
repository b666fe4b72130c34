#include "stretto/observe/step_records.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "stretto/base/files/input_file.h"

namespace stretto {
namespace {

using nlohmann::json;

/// Reads the numbers of one object, and remembers the first that is not there.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  template <class Whole>
  void whole(const char* key, Whole& out) {
    if (const json* value = find(key, &json::is_number_unsigned)) out = value->get<Whole>();
  }

  void time(const char* key, Duration& out) {
    const json* value = find(key, &json::is_number);
    if (value == nullptr) return;
    const double length = value->get<double>();
    if (length >= 0 && length < kLongest) {
      out = Duration(std::llround(length * 1e9));  // to the nanosecond, as it was written
    } else {
      lacks(key);
    }
  }

  /// What is not finite was written as null.
  void loss(const char* key, double& out) {
    const auto found = object_.find(key);
    const bool number = found != object_.end() && found->is_number();
    out = number ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
  }

  const char* missing() const { return missing_; }

 private:
  static constexpr double kLongest = 1e9;  // seconds; what a Duration holds

  const json* find(const char* key, bool (json::*is)() const noexcept) {
    const auto found = object_.find(key);
    if (found != object_.end() && ((*found).*is)()) return &*found;
    lacks(key);
    return nullptr;
  }

  void lacks(const char* key) {
    if (missing_ == nullptr) missing_ = key;
  }

  const json& object_;
  const char* missing_ = nullptr;
};

/// The record in a line; or the key that it lacks, "" where the line is no object at all.
std::optional<StepRecord> record_in(const json& line, const char*& missing) {
  missing = "";
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
  return missing == nullptr ? std::optional(record) : std::nullopt;
}

}  // namespace

Result<LinesFound> read_step_records(const std::string& path, TakeStepRecord take) {
  if (std::error_code unknown; !std::filesystem::exists(path, unknown)) return LinesFound::no_file;
  auto opened = open_file(path);
  if (!opened) return opened.error();
  std::ifstream& file = *opened;
  std::string line;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    const bool last = file.eof();  // without the end of its line
    const auto wrong = [&](const std::string& what) {
      return Error{Errc::bad_input, text("'", path, "' line ", number, ": ", what)};
    };
    const char* missing = nullptr;
    const auto record = record_in(json::parse(line, nullptr, false), missing);
    if (!record && last) return LinesFound::cut;
    if (!record && *missing == '\0') return wrong("no record of a step");
    if (!record) return wrong(text("no record of a step: expected a number as '", missing, "'"));
    const std::string fault = take(*record);
    if (!fault.empty()) return wrong(fault);
  }
  return LinesFound::all;
}

}  // namespace stretto
