#include "stretto/predict/measured/chrome_events.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "stretto/base/files/input_file.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr std::uint64_t kEventsBetweenReports = 4096;
constexpr double kMostRanks = 1e6;
constexpr double kLatest = 1e17;  // microseconds: two thousand years behind 1970, with some digits left

/// Follows a JSON text by where it is: how deep, and behind which key. Stops where something is wrong.
class Follower : public json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return on_number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return on_number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return on_number(value); }
  bool string(string_t& value) override { return on_text(value); }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return on_begin();
  }
  bool key(string_t& value) override {
    keys_.back() = value;
    return on_key();
  }
  bool end_object() override {
    const bool goes_on = on_end();
    keys_.pop_back();
    return goes_on;
  }
  bool start_array(std::size_t) override {
    is_list_ = is_list_ || keys_.empty();
    keys_.emplace_back();
    return true;
  }
  bool end_array() override {
    keys_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    error_at_ = position;
    return false;
  }

  /// Of the byte that is no JSON.
  const std::optional<std::size_t>& error_at() const { return error_at_; }
  std::size_t depth() const { return keys_.size(); }
  bool is_list() const { return is_list_; }

 protected:
  virtual bool on_number(double) { return true; }
  virtual bool on_text(std::string&) { return true; }
  virtual bool on_begin() { return true; }
  virtual bool on_key() { return true; }
  virtual bool on_end() { return true; }

  /// Of the objects around, from outside; of a list an empty one.
  const std::string& key_at(std::size_t level) const { return keys_[level]; }

 private:
  std::vector<std::string> keys_;
  bool is_list_ = false;
  std::optional<std::size_t> error_at_;
};

class EventReader final : public Follower {
 public:
  EventReader(FunctionRef<std::string(const ChromeEvent&)> take, std::function<void()> report)
      : take_(take), report_(std::move(report)) {}

  const ChromeJob& job() const { return job_; }
  const std::string& fault() const { return fault_; }
  std::uint64_t events() const { return events_; }

 private:
  // In a list: [ {…}; in an object: { "traceEvents": [ {…}.
  bool in_event() const {
    if (depth() == 2) return key_at(0).empty();
    return depth() == 3 && key_at(0) == "traceEvents" && key_at(1).empty();
  }

  bool on_begin() override {
    if (in_event()) event_ = {};
    return true;
  }

  bool on_end() override {
    if (!in_event()) return true;
    if (++events_ % kEventsBetweenReports == 0) report_();
    fault_ = take_(event_);
    return fault_.empty();
  }

  bool on_text(std::string& value) override {
    if (!in_event()) return true;
    const std::string& key = key_at(depth() - 1);
    if (key == "ph")
      event_.phase = std::move(value);
    else if (key == "name")
      event_.name = std::move(value);
    else if (key == "cat")
      event_.category = std::move(value);
    return true;
  }

  bool on_number(double value) override {
    if (depth() == 2 && key_at(0) == "distributedInfo") {
      if (!(value >= 0 && value <= kMostRanks)) return true;
      if (key_at(1) == "rank") job_.rank = static_cast<int>(value);
      if (key_at(1) == "world_size") job_.ranks = static_cast<int>(value);
      return true;
    }
    if (!in_event()) return true;
    const std::string& key = key_at(depth() - 1);
    if (key == "ts")
      event_.at = value;
    else if (key == "dur")
      event_.length = value;
    else if (key == "pid" && std::abs(value) < 1e15)
      event_.process = static_cast<std::int64_t>(value);
    return true;
  }

  const FunctionRef<std::string(const ChromeEvent&)> take_;
  const std::function<void()> report_;
  ChromeEvent event_;
  ChromeJob job_;
  std::uint64_t events_ = 0;
  std::string fault_;
};

/// Stops at the key that says what an object is.
class KindReader final : public Follower {
 public:
  std::optional<TraceKind> kind() const { return kind_; }

 private:
  bool on_key() override {
    if (depth() != 1) return true;
    if (key_at(0) == "traceEvents") kind_ = TraceKind::kineto;
    if (key_at(0) == "workers") kind_ = TraceKind::job;
    return !kind_;
  }

  std::optional<TraceKind> kind_;
};

Error wrong(const std::string& path, const std::string& what) {
  return {Errc::bad_input, text("'", path, "' ", what)};
}

Error no_json(const std::string& path, const std::ifstream& file, std::size_t position) {
  if (file.eof()) return wrong(path, "is cut off: its JSON does not end");
  return wrong(path, text("is no JSON: byte ", position, " does not fit"));
}

}  // namespace

std::string fault_of_time(const ChromeEvent& event) {
  if (std::abs(event.at) <= kLatest) return {};
  const std::string what = text("has the event '", event.name, "' ");
  if (std::isnan(event.at)) return what + "without its time; expected microseconds as the number ts";
  return what + text("at ", event.at, " us; expected at most ", kLatest);
}

Result<ChromeJob> read_chrome_events(const std::string& path, FunctionRef<std::string(const ChromeEvent&)> take,
                                     const ReadProgress& progress) {
  auto file = open_file(path);
  if (!file) return file.error();
  std::error_code unknown;
  const std::uint64_t size = std::filesystem::file_size(path, unknown);
  EventReader reader(take, [&] {
    if (!progress) return;
    const auto at = static_cast<std::streamoff>(file->rdbuf()->pubseekoff(0, std::ios::cur, std::ios::in));
    progress(static_cast<std::uint64_t>(at), size);
  });
  const bool whole = json::sax_parse(*file, &reader);
  if (!reader.fault().empty()) return wrong(path, reader.fault());
  // Horovod's first versions never wrote the bracket at the end.
  const bool ends_between_events = reader.is_list() && file->eof() && reader.depth() == 1 && reader.events() > 0;
  if (!whole && !ends_between_events) return no_json(path, *file, reader.error_at().value_or(0));
  return reader.job();
}

Result<TraceKind> kind_of_trace(const std::string& path) {
  auto file = open_file(path);
  if (!file) return file.error();
  *file >> std::ws;
  const int first = file->peek();
  if (first == '[') return TraceKind::list;
  if (first == 0x1f) return wrong(path, "is compressed; expected what gunzip makes of it");
  if (first != '{') return TraceKind::rows;
  KindReader reader;
  const bool whole = json::sax_parse(*file, &reader);
  if (reader.kind()) return *reader.kind();
  if (!whole) return no_json(path, *file, reader.error_at().value_or(0));
  return wrong(path, "is neither a trace, which has traceEvents, nor a profile, which has workers");
}

}  // namespace stretto
