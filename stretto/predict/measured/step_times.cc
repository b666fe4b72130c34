#include "stretto/predict/measured/step_times.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "stretto/base/random.h"
#include "stretto/imbalance/trace_rows.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/step_records.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBlocksStream = 0x626c6f636b73;
constexpr std::uint64_t kNoiseStream = 0x6e6f697365;
constexpr int kMaxRanks = 100'000;

/// Takes times one by one, in any order, and keeps as many steps as fit into its memory: of more every second one, and
/// again of these.
class Collected {
 public:
  explicit Collected(std::string source) : source_(std::move(source)) {}

  /// What is wrong; empty where nothing is.
  std::string take(std::uint64_t step, int rank, double seconds) {
    if (rank >= kMaxRanks) return text("rank ", rank, " is not one of 0 … ", kMaxRanks - 1);
    ranks_ = std::max(ranks_, rank + 1);
    if (step % stride_ != 0) return {};
    std::vector<float>& row = rows_[step];
    const auto index = static_cast<std::size_t>(rank);
    if (row.size() <= index) {
      kept_ += index + 1 - row.size();
      row.resize(index + 1, kMissing);
    }
    if (row[index] != kMissing) return text("a second row for step ", step, " and rank ", rank);
    row[index] = static_cast<float>(seconds);
    while (kept_ > kMost) thin_out();
    return {};
  }

  Result<StepTimes> result() {
    if (rows_.empty()) return wrong("has no rows step,rank,seconds");
    if (!is_whole(rows_.rbegin()->second)) rows_.erase(std::prev(rows_.end()));
    std::vector<float> all;
    for (const auto& [step, row] : rows_) {
      if (!is_whole(row)) {
        const auto missing = std::ranges::find(row, kMissing) - row.begin();
        return wrong(text("has no time of rank ", missing, " in step ", step, ", of ", ranks_, " ranks"));
      }
      all.insert(all.end(), row.begin(), row.end());
    }
    if (all.empty()) return wrong("has not one step of all its ranks");
    return StepTimes(ranks_, std::move(all));
  }

 private:
  static constexpr float kMissing = -1;
  static constexpr std::size_t kMost = 1 << 20;

  Error wrong(const std::string& what) const { return {Errc::bad_input, text("'", source_, "' ", what)}; }

  bool is_whole(const std::vector<float>& row) const {
    return row.size() == static_cast<std::size_t>(ranks_) && std::ranges::count(row, kMissing) == 0;
  }

  void thin_out() {
    stride_ *= 2;
    std::erase_if(rows_, [this](const auto& row) {
      const bool goes = row.first % stride_ != 0;
      if (goes) kept_ -= row.second.size();
      return goes;
    });
  }

  const std::string source_;
  int ranks_ = 0;
  std::uint64_t stride_ = 1;
  std::size_t kept_ = 0;
  std::map<std::uint64_t, std::vector<float>> rows_;  // by step
};

/// The records of one rank in a run's folder; false where there is no such file.
Result<bool> collect(const RunFolder& folder, int rank, Collected& collected) {
  return read_step_records(folder.records_file(rank), [&](const StepRecord& record) {
    return collected.take(record.step, rank, seconds(record.computed + record.paced + record.delayed));
  });
}

Result<StepTimes> read_run(const std::string& path) {
  const auto folder = RunFolder::open(path);
  if (!folder) return folder.error();
  if (const auto config = folder->read("config.json"); !config) {
    return Error{Errc::bad_input, text("'", path, "' is no folder of a run: it has no config.json")};
  }
  Collected collected(path);
  for (int rank = 0;; ++rank) {
    const auto found = collect(*folder, rank, collected);
    if (!found) return found.error();
    if (!*found) return collected.result();
  }
}

}  // namespace

StepTimes::StepTimes(int ranks, std::vector<float> seconds) : ranks_(ranks), seconds_(std::move(seconds)) {
  STRETTO_CHECK(ranks > 0 && !seconds_.empty() && seconds_.size() % static_cast<std::size_t>(ranks) == 0,
                "whole steps, at least one");
}

std::span<const float> StepTimes::step(std::size_t number) const {
  const auto width = static_cast<std::size_t>(ranks_);
  return std::span(seconds_).subspan(number * width, width);
}

double StepTimes::mean() const {
  return std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
}

double StepTimes::skew() const {
  double sum = 0;
  for (std::size_t i = 0; i < steps(); ++i) {
    const auto [first, last] = std::ranges::minmax(step(i));
    sum += static_cast<double>(last) - static_cast<double>(first);
  }
  return sum / static_cast<double>(steps());
}

StepTimes StepTimes::resampled(std::uint64_t seed, std::size_t steps, std::size_t block) const {
  Random random(seed, kBlocksStream);
  const std::size_t length = std::min(block, this->steps());
  std::vector<float> drawn;
  drawn.reserve(steps * static_cast<std::size_t>(ranks_));
  for (std::size_t made = 0; made < steps;) {
    const std::size_t first = random.below(this->steps() - length + 1);
    for (std::size_t i = first; i < first + length && made < steps; ++i, ++made) {
      const auto times = step(i);
      drawn.insert(drawn.end(), times.begin(), times.end());
    }
  }
  return {ranks_, std::move(drawn)};
}

StepTimes StepTimes::with_skew(double factor) const {
  std::vector<float> scaled;
  scaled.reserve(seconds_.size());
  for (std::size_t i = 0; i < steps(); ++i) {
    const auto times = step(i);
    const double middle = std::accumulate(times.begin(), times.end(), 0.0) / ranks_;
    for (const float time : times) {
      scaled.push_back(static_cast<float>(std::max(0.0, middle + factor * (static_cast<double>(time) - middle))));
    }
  }
  return {ranks_, std::move(scaled)};
}

StepTimes StepTimes::with_noise(std::uint64_t seed, double mean) const {
  Random random(seed, kNoiseStream);
  std::vector<float> longer;
  longer.reserve(seconds_.size());
  for (const float time : seconds_) {
    longer.push_back(static_cast<float>(static_cast<double>(time) - mean * std::log1p(-random.uniform())));
  }
  return {ranks_, std::move(longer)};
}

std::string StepTimes::to_csv() const {
  std::string csv = "step,rank,seconds\n";
  for (std::size_t i = 0; i < steps(); ++i) {
    int rank = 0;
    for (const float time : step(i)) csv += text(i, ',', rank++, ',', time, '\n');
  }
  return csv;
}

StepTimes drawn_step_times(const Imbalance& imbalance, double compute, int ranks, std::size_t steps,
                           std::uint64_t seed) {
  std::vector<float> times;
  times.reserve(steps * static_cast<std::size_t>(ranks));
  for (std::size_t step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const ImbalanceDraw draw = imbalance.draw(seed, rank, step);
      times.push_back(static_cast<float>(compute * draw.factor + seconds(draw.delay)));
    }
  }
  return {ranks, std::move(times)};
}

Result<StepTimes> read_step_times(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return read_run(path);
  Collected collected(path);
  const auto read =
      read_trace_rows(path, [&](const TraceRow& row) { return collected.take(row.step, row.rank, row.seconds); });
  if (!read) return read.error();
  return collected.result();
}

}  // namespace stretto
