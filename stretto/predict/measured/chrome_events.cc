#include "stretto/predict/measured/chrome_events.h"

#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <functional>
#include <istream>
#include <nlohmann/json.hpp>
#include <streambuf>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/base/files/input_file.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr std::uint64_t kEventsBetweenReports = 4096;
constexpr double kMostRanks = 1e6;
constexpr double kLatest = 1e17;  // microseconds: two thousand years behind 1970, with some digits left

/// Puts null for the numbers that JSON does not have, which Python (NaN, Infinity) and C++ (nan, inf) write.
class FiniteNumbers final : public std::streambuf {
 public:
  explicit FiniteNumbers(std::istream& from) : from_(from) {}

  /// Where the byte before which it has handed over so many lies in what it reads.
  std::size_t position_of(std::size_t handed_over) const {
    auto position = static_cast<std::ptrdiff_t>(handed_over) - longer_;
    for (const auto& [at, by] : longer_here_) position -= at <= handed_over ? by : 0;
    return static_cast<std::size_t>(position);
  }

 private:
  int_type underflow() override {
    if (gptr() == egptr()) {
      handed_over_ += out_.size();
      for (const auto& [at, by] : longer_here_) longer_ += by;
      longer_here_.clear();
      out_.clear();
      while (out_.size() < kChunk && take()) continue;
      setg(out_.data(), out_.data(), out_.data() + out_.size());
      if (out_.empty()) return traits_type::eof();
    }
    return traits_type::to_int_type(*gptr());
  }

  /// False at the end, where what was held back is let go.
  bool take() {
    const int next = from_.rdbuf()->sbumpc();
    const bool letter = next != traits_type::eof() && !in_text_ && std::isalpha(next) != 0;
    if (letter && word_.size() < kLongestWord) {
      word_ += static_cast<char>(next);
      return true;
    }
    end_word();
    if (next == traits_type::eof()) return false;
    if (next == '-' && !in_text_) {
      word_ = "-";
      return true;
    }
    if (next == '"' && !escaped_) in_text_ = !in_text_;
    escaped_ = in_text_ && next == '\\' && !escaped_;
    out_ += static_cast<char>(next);
    return true;
  }

  void end_word() {
    const std::string_view name = std::string_view(word_).substr(word_.starts_with('-') ? 1 : 0);
    if (name == "NaN" || name == "nan" || name == "Infinity" || name == "inf") {
      const std::ptrdiff_t by = static_cast<std::ptrdiff_t>(kNull.size()) - static_cast<std::ptrdiff_t>(word_.size());
      longer_here_.emplace_back(handed_over_ + out_.size() + kNull.size(), by);
      word_ = kNull;
    }
    out_ += word_;
    word_.clear();
  }

  static constexpr std::size_t kChunk = 1 << 16, kLongestWord = 16;
  static constexpr std::string_view kNull = "null";

  std::istream& from_;
  std::string out_, word_;  // a sign and letters so far
  bool in_text_ = false, escaped_ = false;
  std::size_t handed_over_ = 0;                                      // before `out_`
  std::ptrdiff_t longer_ = 0;                                        // than what it has read
  std::vector<std::pair<std::size_t, std::ptrdiff_t>> longer_here_;  // in `out_`: up to where, by how much
};

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

/// How following a file's JSON has ended.
struct Followed {
  bool whole = false;
  bool file_ended = false;   ///< before its JSON did
  std::size_t position = 0;  ///< in bytes, where it is no JSON
};

Followed follow(InputFile& file, Follower& follower) {
  FiniteNumbers numbers(file.stream());
  std::istream text(&numbers);
  Followed followed{.whole = json::sax_parse(text, &follower)};
  const auto read = file.whole();
  followed.file_ended = text.eof() && (read || file.is_cut());
  followed.position = numbers.position_of(follower.error_at().value_or(0));
  return followed;
}

/// Why the JSON could not be followed.
Error no_json(const std::string& path, const InputFile& file, const Followed& followed) {
  if (followed.file_ended) return wrong(path, "is cut off: its JSON does not end");
  if (const auto read = file.whole(); !read) return read.error();
  return wrong(path, text("is no JSON: byte ", followed.position, " does not fit"));
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
    if (progress) progress(file->consumed(), size);
  });
  const Followed followed = follow(*file, reader);
  if (!reader.fault().empty()) return wrong(path, reader.fault());
  ChromeJob job = reader.job();
  if (followed.whole) return job;
  if (!followed.file_ended || reader.events() == 0) return no_json(path, *file, followed);
  job.ended = false;
  job.cut = !reader.is_list() || reader.depth() != 1;
  return job;
}

std::string cut_note(const std::string& path) {
  return text("'", path, "' is cut off: read up to its last whole event");
}

Result<TraceKind> kind_of_trace(const std::string& path) {
  auto file = open_file(path);
  if (!file) return file.error();
  file->stream() >> std::ws;
  const int first = file->stream().peek();
  if (const auto read = file->whole(); !read) return read.error();
  if (first == '[') return TraceKind::list;
  if (first != '{') return TraceKind::rows;
  KindReader reader;
  const Followed followed = follow(*file, reader);
  if (reader.kind()) return *reader.kind();
  if (!followed.whole) return no_json(path, *file, followed);
  return wrong(path, "is neither a trace, which has traceEvents, nor a profile, which has workers");
}

}  // namespace stretto
