#include "stretto/observe/step_records.h"

#include <cmath>
#include <filesystem>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

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
