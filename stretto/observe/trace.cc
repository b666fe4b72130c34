#include "stretto/observe/trace.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

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

std::string track_name(int track, int rank, const char* what) {
  return text(R"({"ph":"M","name":"thread_name","pid":1,"tid":)", track, R"(,"args":{"name":"rank )", rank, ' ', what,
              R"("}})");
}

std::string track_order(int track) {
  return text(R"({"ph":"M","name":"thread_sort_index","pid":1,"tid":)", track, R"(,"args":{"sort_index":)", track,
              "}}");
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
  file_.append(track_name(steps_track(rank), rank, "steps"));
  file_.append(track_order(steps_track(rank)));
  file_.append(track_name(rounds_track(rank), rank, "rounds"));
  file_.append(track_order(rounds_track(rank)));
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

}  // namespace stretto
