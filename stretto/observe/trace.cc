#include "stretto/observe/trace.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "stretto/base/files/input_file.h"

namespace stretto {

namespace {

const char* name_of(TraceWriter::Kind kind) {
  switch (kind) {
    case TraceWriter::Kind::compute: return "compute";
    case TraceWriter::Kind::paced: return "paced";
    case TraceWriter::Kind::delay: return "injected delay";
    case TraceWriter::Kind::wait: return "wait";
  }
  return "unknown";
}

const char* name_of(TraceWriter::Fate fate) {
  switch (fate) {
    case TraceWriter::Fate::fresh: return "fresh";
    case TraceWriter::Fate::stale: return "stale";
    case TraceWriter::Fate::null: return "null";
    case TraceWriter::Fate::unknown: return "unknown";
  }
  return "unknown";
}

int steps_track(int rank) {
  return 2 * rank;
}
int rounds_track(int rank) {
  return 2 * rank + 1;
}

/// Of steps and rounds of all ranks; that of a rank's tensors is another one.
constexpr int kProcess = 1;
int process_of_tensors(int rank) {
  return kProcess + 1 + rank;
}

/// `name`: as JSON.
std::string track_name(int process, int track, const std::string& name) {
  return text(R"({"ph":"M","name":"thread_name","pid":)", process, R"(,"tid":)", track, R"(,"args":{"name":)", name,
              "}}");
}

std::string track_order(int process, int track) {
  return text(R"({"ph":"M","name":"thread_sort_index","pid":)", process, R"(,"tid":)", track,
              R"(,"args":{"sort_index":)", track, "}}");
}

/// Microseconds, as the format wants them, to the nanosecond.
struct Micros {
  explicit Micros(Duration duration)
      : whole(duration.count() / 1000), nanoseconds(static_cast<int>(duration.count() % 1000)) {}
  std::int64_t whole;
  int nanoseconds;
};

bool is_whole(const std::string& line) {
  return line.size() > 2 && line.front() == '{' && line.back() == '}';
}

}  // namespace

TraceWriter::TraceWriter(std::string path, int rank, TimePoint start)
    : file_(std::move(path)), rank_(rank), start_(start), last_round_(start) {
  file_.append(track_name(kProcess, steps_track(rank), text("\"rank ", rank, " steps\"")));
  file_.append(track_order(kProcess, steps_track(rank)));
  file_.append(track_name(kProcess, rounds_track(rank), text("\"rank ", rank, " rounds\"")));
  file_.append(track_order(kProcess, rounds_track(rank)));
}

void TraceWriter::slice(Kind kind, TimePoint begin, Duration duration, std::uint64_t step) noexcept {
  if (duration <= Duration::zero()) return;
  const Micros at(std::max(begin, start_) - start_), length(duration);
  char line[256];
  const int size = std::snprintf(line, sizeof line,
                                 R"({"ph":"X","name":"%s","pid":1,"tid":%d,"ts":%)" PRId64 R"(.%03d,"dur":%)" PRId64
                                 R"(.%03d,"args":{"step":%)" PRIu64 "}}",
                                 name_of(kind), steps_track(rank_), at.whole, at.nanoseconds, length.whole,
                                 length.nanoseconds, step);
  file_.append({line, static_cast<std::size_t>(size)});
}

void TraceWriter::round(const Round& round, TimePoint when) noexcept {
  const TimePoint end = std::max(when, last_round_);
  const Micros at(last_round_ - start_), length(end - last_round_);
  last_round_ = end;
  char line[384];
  const int size =
      std::snprintf(line, sizeof line,
                    R"({"ph":"X","name":"%s","pid":1,"tid":%d,"ts":%)" PRId64 R"(.%03d,"dur":%)" PRId64
                    R"(.%03d,"args":{"round":%)" PRIu64 R"(,"arrived":%d,"contributors":%d,"batches":%)" PRIu64
                    R"(,"staleness":%)" PRIu64 "}}",
                    name_of(round.fate), rounds_track(rank_), at.whole, at.nanoseconds, length.whole,
                    length.nanoseconds, round.round, round.arrived, round.contributors, round.batches, round.staleness);
  file_.append({line, static_cast<std::size_t>(size)});
}

/// The first tensor names the process, and each one its track.
int TraceWriter::track_of(const std::string& tensor) {
  const auto [known, is_new] = tensor_tracks_.try_emplace(tensor, static_cast<int>(tensor_tracks_.size()));
  if (!is_new) return known->second;
  const int process = process_of_tensors(rank_);
  if (known->second == 0) {
    file_.append(text(R"({"ph":"M","name":"process_name","pid":)", process, R"(,"args":{"name":"rank )", rank_,
                      R"( tensors"}})"));
    file_.append(
        text(R"({"ph":"M","name":"process_sort_index","pid":)", process, R"(,"args":{"sort_index":)", process, "}}"));
  }
  using nlohmann::json;
  file_.append(track_name(process, known->second, json(tensor).dump(-1, ' ', true, json::error_handler_t::replace)));
  file_.append(track_order(process, known->second));
  return known->second;
}

void TraceWriter::tensor(const TensorTimes& times) noexcept {
  int track = 0;
  try {
    track = track_of(times.name);
  } catch (const std::bad_alloc&) {
    return;
  }
  struct Part {
    const char* name;
    TimePoint begin, end;
  };
  const Part parts[] = {{"QUEUE", times.submitted, times.taken},
                        {"NEGOTIATE", times.taken, times.begun},
                        {"FUSE", times.begun, times.fused},
                        {times.is_void ? "TRANSFER (void)" : "TRANSFER", times.fused, times.done}};
  for (const Part& part : std::span(parts).subspan(times.comes_again ? 1 : 0)) {
    const TimePoint begin = std::max(part.begin, start_), end = std::max(part.end, begin);
    const Micros at(begin - start_), length(end - begin);
    char line[320];
    const int size = std::snprintf(line, sizeof line,
                                   R"({"ph":"X","name":"%s","pid":%d,"tid":%d,"ts":%)" PRId64 R"(.%03d,"dur":%)" PRId64
                                   R"(.%03d,"args":{"step":%)" PRIu64 R"(,"buffer":%)" PRIu64 R"(,"set":%d}})",
                                   part.name, process_of_tensors(rank_), track, at.whole, at.nanoseconds, length.whole,
                                   length.nanoseconds, times.step, times.buffer, times.set);
    file_.append({line, static_cast<std::size_t>(size)});
  }
}

Result<std::uint64_t> merge_traces(std::span<const std::string> parts, const std::string& path) {
  const std::string temporary = path + ".part";
  const auto failed = [&] {
    const int reason = errno != 0 ? errno : EIO;
    ::unlink(temporary.c_str());
    return Error{Errc::io, text("cannot write '", path, "': ", std::strerror(reason), "; the parts of the trace stay")};
  };
  std::ofstream out(temporary, std::ios::trunc);
  if (!out) return failed();
  out << R"({"displayTimeUnit":"ms","traceEvents":[)"
      << "\n"
      << R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"stretto"}})";
  std::uint64_t events = 0;
  std::string line;
  for (const std::string& part : parts) {
    std::ifstream in(part);
    while (std::getline(in, line)) {
      if (!is_whole(line)) continue;
      out << ",\n" << line;
      ++events;
    }
    if (!out) return failed();
  }
  out << "\n]}\n";
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) return failed();
  for (const std::string& part : parts) ::unlink(part.c_str());
  return events;
}

namespace {

using nlohmann::json;

constexpr std::string_view kBeginOfMergedTrace = R"({"displayTimeUnit")", kEndOfMergedTrace = "]}";
// Most lines are slices of steps: what is not a round is told by its text, not parsed.
constexpr std::string_view kMarkOfARound = R"("args":{"round":)";

TraceWriter::Fate fate_of(const std::string& name) {
  if (name == "fresh") return TraceWriter::Fate::fresh;
  if (name == "stale") return TraceWriter::Fate::stale;
  return name == "null" ? TraceWriter::Fate::null : TraceWriter::Fate::unknown;
}

std::optional<HandedRound> round_in(const json& event) {
  try {
    const json& arguments = event.at("args");
    const auto microseconds = event.at("ts").get<double>() + event.at("dur").get<double>();
    const int track = event.at("tid").get<int>();
    if (track < 0 || track % 2 == 0 || !(microseconds >= 0 && microseconds < 1e15)) return std::nullopt;
    return HandedRound{.rank = track / 2,
                       .when = Duration(std::llround(1000 * microseconds)),
                       .round = {.round = arguments.at("round").get<std::uint64_t>(),
                                 .fate = fate_of(event.at("name").get<std::string>()),
                                 .arrived = arguments.at("arrived").get<int>(),
                                 .contributors = arguments.at("contributors").get<int>(),
                                 .batches = arguments.at("batches").get<std::uint64_t>(),
                                 .staleness = arguments.at("staleness").get<std::uint64_t>()}};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<LinesFound> read_traced_rounds(const std::string& path, FunctionRef<void(const HandedRound&)> take) {
  if (std::error_code unknown; !std::filesystem::exists(stored_as(path), unknown)) return LinesFound::no_file;
  auto opened = open_file(stored_as(path));
  if (!opened) return opened.error();
  std::istream& file = opened->stream();
  std::string line;
  bool merged = false, ended = false, whole = true;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1) merged = line.starts_with(kBeginOfMergedTrace);
    ended = line == kEndOfMergedTrace;
    const bool event_line = line.starts_with(R"({"ph":)") && (line.ends_with('}') || line.ends_with("},"));
    whole = whole && (event_line || (merged && (number == 1 || ended)));
    if (line.find(kMarkOfARound) == std::string::npos) continue;
    if (line.ends_with(',')) line.pop_back();
    const json event = json::parse(line, nullptr, false);
    if (event.is_discarded()) continue;
    const auto round = round_in(event);
    if (!round) return Error{Errc::bad_input, text("'", path, "' line ", number, ": no round of a rank")};
    take(*round);
  }
  if (const auto read = opened->whole(); !read && !opened->is_cut()) return read.error();
  return whole && ended == merged && !opened->is_cut() ? LinesFound::all : LinesFound::cut;
}

}  // namespace stretto
