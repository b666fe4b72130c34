#include "stretto/imbalance/trace_file.h"

#include <algorithm>
#include <cmath>

#include "stretto/imbalance/trace_rows.h"

namespace stretto {

Result<std::vector<Duration>> read_trace_file(const std::string& path, int ranks) {
  constexpr std::uint64_t kMaxEntries = 100'000'000;
  constexpr Duration kUnset{-1};
  const auto width = static_cast<std::uint64_t>(ranks);
  std::vector<Duration> delays;
  const auto read = read_trace_rows(path, [&](const TraceRow& row) -> std::string {
    if (row.rank >= ranks) return text("rank ", row.rank, " is not one of 0 … ", ranks - 1);
    if (row.step >= kMaxEntries / width) return text("step beyond the largest possible, ", kMaxEntries / width - 1);
    if (delays.size() < (row.step + 1) * width) delays.resize((row.step + 1) * width, kUnset);
    Duration& entry = delays[row.step * width + static_cast<std::uint64_t>(row.rank)];
    if (entry != kUnset) return text("a second row for step ", row.step, " and rank ", row.rank);
    entry = Duration{std::llround(row.seconds * 1e9)};
    return {};
  });
  if (!read) return read.error();
  if (delays.empty()) return Error{Errc::bad_input, text("'", path, "' has no rows step,rank,seconds")};
  for (Duration& delay : delays) delay = std::max(delay, Duration{0});
  return delays;
}

}  // namespace stretto
