#include "stretto/predict/measured/step_times.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/files/input_file.h"
#include "stretto/base/random.h"
#include "stretto/imbalance/ideal.h"
#include "stretto/imbalance/trace_file.h"
#include "stretto/observe/run_folder.h"
#include "stretto/predict/measured/traces.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBlocksStream = 0x626c6f636b73;
constexpr std::uint64_t kComputedStream = 0x636f6d7075746564;
constexpr std::uint64_t kNoiseStream = 0x6e6f697365;

/// The records of one rank in a run's folder.
Result<LinesFound> collect(const RunFolder& folder, int rank, CollectedTimes& collected) {
  return read_step_records(folder.records_file(rank), [&](const StepRecord& record) {
    return collected.take(record.step, rank, seconds(record.computed + record.paced + record.delayed));
  });
}

/// As the run's config.json says; 0 where it does not.
int ranks_in(const std::string& config) {
  const auto json = nlohmann::json::parse(config, nullptr, false);
  const auto ranks = json.is_object() ? json.find("ranks") : json.end();
  return ranks != json.end() && ranks->is_number_unsigned() ? ranks->get<int>() : 0;
}

/// 0 where it is not there.
std::uint64_t size_of(const std::string& file) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(stored_as(file), unknown);
  return unknown ? 0 : size;
}

Result<StepTimes> read_run(const std::string& path, const ReadProgress& progress) {
  const auto folder = RunFolder::open(path);
  if (!folder) return folder.error();
  const auto config = folder->read("config.json");
  if (!config) {
    return Error{Errc::bad_input, text("'", path, "' is no folder of a run: it has no config.json")};
  }
  const int ranks = ranks_in(*config);
  std::uint64_t done = 0, total = 0;
  std::uint64_t size = 0;
  for (int rank = 0; (size = size_of(folder->records_file(rank))) != 0; ++rank) total += size;
  CollectedTimes collected(path);
  for (int rank = 0;; ++rank) {
    const auto found = collect(*folder, rank, collected);
    if (!found) return found.error();
    if (*found == LinesFound::no_file) {
      if (rank >= ranks) return collected.result();
      return Error{Errc::bad_input,
                   text("'", path, "' has no records of rank ", rank, " of ", ranks, ": no records-", rank, ".jsonl")};
    }
    done += size_of(folder->records_file(rank));
    if (progress) progress(done, std::max(done, total));  // a run that goes on still writes
  }
}

/// The traces of PyTorch's profiler that a folder holds, by name; none where it is the folder of a run.
std::vector<std::string> traces_in(const std::string& path) {
  std::vector<std::string> traces;
  std::error_code unknown;
  if (std::filesystem::exists(stored_as(path + "/config.json"), unknown)) return traces;
  for (const auto& entry : std::filesystem::directory_iterator(path, unknown)) {
    const std::string name = entry.path().string();
    if (!name.ends_with(".json") && !name.ends_with(".json.gz")) continue;
    const auto kind = kind_of_trace(name);
    if (kind && *kind == TraceKind::kineto) traces.push_back(name);
  }
  std::ranges::sort(traces);
  return traces;
}

constexpr std::uint64_t kTurnsStream = 0x7475726e73;
constexpr std::uint64_t kScoresStream = 0x73636f726573;

/// Between −1 and 1, in the order of `times`: how many of them are shorter, less how many are longer, as a share.
/// Equal times have equal scores.
std::vector<double> scores(const std::vector<float>& times, const std::vector<float>& ascending) {
  const auto count = static_cast<double>(times.size());
  std::vector<double> scores;
  scores.reserve(times.size());
  for (const float time : times) {
    const auto [first, last] = std::equal_range(ascending.begin(), ascending.end(), time);
    scores.push_back(static_cast<double>((first - ascending.begin()) - (ascending.end() - last)) / count);
  }
  return scores;
}

/// Of equal times nothing is known, and 0 is said.
double persistence_of(const std::vector<double>& scores) {
  const double all = std::inner_product(scores.begin(), scores.end(), scores.begin(), 0.0);
  if (all == 0) return 0;
  const double next = std::inner_product(scores.begin() + 1, scores.end(), scores.begin(), 0.0);
  const double rho = std::clamp(next / all, -1.0, 1.0);
  return 2 * std::sin(std::numbers::pi * rho / 6);
}

RankTimesModel fit_rank(const StepTimes& measured, std::size_t rank) {
  std::vector<float> times;
  times.reserve(measured.steps());
  for (std::size_t step = 0; step < measured.steps(); ++step) times.push_back(measured.step(step)[rank]);
  RankTimesModel model{.times = times};
  std::ranges::sort(model.times);
  model.persistence = persistence_of(scores(times, model.times));
  return model;
}

/// Which of so many models each rank has.
std::vector<std::size_t> turns(std::size_t models, int ranks, std::uint64_t seed) {
  Random random(seed, kTurnsStream);
  std::vector<std::size_t> order(models), turns;
  std::iota(order.begin(), order.end(), 0);
  while (turns.size() < static_cast<std::size_t>(ranks)) {
    for (std::size_t i = models; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    turns.insert(turns.end(), order.begin(), order.end());
  }
  turns.resize(static_cast<std::size_t>(ranks));
  return turns;
}

float quantile_at(const std::vector<float>& ascending, double normal) {
  const double below = std::erfc(-normal / std::numbers::sqrt2) / 2;
  const auto index = static_cast<std::size_t>(below * static_cast<double>(ascending.size()));
  return ascending[std::min(index, ascending.size() - 1)];
}

constexpr int kMaxRanks = 100'000;
constexpr float kMissing = -1;
constexpr std::size_t kMost = 1 << 20;
/// Steps that follow one another and stay or go together: what lasts for some steps is seen in them. So many of the
/// most ranks fit.
constexpr std::uint64_t kStretch = 10;
static_assert(kStretch * kMaxRanks <= kMost);

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

double StepTimes::ideal_rate(std::uint64_t steps) const {
  const std::uint64_t batches = (steps == 0 ? this->steps() : steps) * static_cast<std::uint64_t>(ranks_);
  const auto lasts = [&](int rank, std::uint64_t number) {
    const auto seconds = static_cast<double>(step(number % this->steps())[static_cast<std::size_t>(rank)]);
    return std::max(from_seconds(seconds), Duration{1});  // as on the virtual clock
  };
  return static_cast<double>(batches) / seconds(shortest_makespan(ranks_, batches, lasts));
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

StepTimes StepTimes::longer_by(double seconds) const {
  std::vector<float> longer = seconds_;
  for (float& time : longer) time = static_cast<float>(static_cast<double>(time) + seconds);
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
  return drawn_step_times(imbalance, std::span(&compute, 1), ranks, steps, seed);
}

StepTimes drawn_step_times(const Imbalance& imbalance, std::span<const double> computed, int ranks, std::size_t steps,
                           std::uint64_t seed) {
  Random random(seed, kComputedStream);
  std::vector<float> times;
  times.reserve(steps * static_cast<std::size_t>(ranks));
  for (std::size_t step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const ImbalanceDraw draw = imbalance.draw(seed, rank, step);
      const double compute = computed.size() == 1 ? computed.front() : computed[random.below(computed.size())];
      times.push_back(static_cast<float>(compute * draw.factor + seconds(draw.delay)));
    }
  }
  return {ranks, std::move(times)};
}

Result<StepTimes> read_step_times(const std::string& path, const ReadProgress& progress) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    const auto traces = traces_in(path);
    return traces.empty() ? read_run(path, progress) : read_kineto_traces(path, traces, progress);
  }
  const auto kind = kind_of_trace(path);
  if (!kind) return kind.error();
  switch (*kind) {
    case TraceKind::kineto: return read_kineto_traces(path, {path}, progress);
    case TraceKind::list: return read_horovod_timeline(path, progress);
    case TraceKind::job:
      return Error{Errc::bad_input, text("'", path, "' is a profile of one worker; expected times of ranks")};
    case TraceKind::rows: break;
  }
  CollectedTimes collected(path);
  const std::uint64_t total = size_of(path);
  const auto read = read_trace_rows(path, [&](const TraceRow& row) {
    if (progress) progress(row.end, total);
    return collected.take(row.step, row.rank, row.seconds);
  });
  if (!read) return read.error();
  return collected.result();
}

StepTimesModel StepTimesModel::fit(const StepTimes& measured) {
  StepTimesModel model;
  for (int rank = 0; rank < measured.ranks(); ++rank) {
    model.ranks.push_back(fit_rank(measured, static_cast<std::size_t>(rank)));
  }
  return model;
}

StepTimes StepTimesModel::draw(int num_ranks, std::size_t steps, std::uint64_t seed) const {
  const auto width = static_cast<std::size_t>(num_ranks);
  const std::vector<std::size_t> whose = turns(ranks.size(), num_ranks, seed);
  std::vector<float> times(steps * width);
  for (std::size_t rank = 0; rank < width; ++rank) {
    const RankTimesModel& model = ranks[whose[rank]];
    const double kept = model.persistence, fresh = std::sqrt(std::max(0.0, 1 - kept * kept));
    Random random(seed, kScoresStream + rank);
    double score = random.normal();
    for (std::size_t step = 0; step < steps; ++step) {
      times[step * width + rank] = quantile_at(model.times, score);
      score = kept * score + fresh * random.normal();
    }
  }
  return {num_ranks, std::move(times)};
}

std::string CollectedTimes::take(std::uint64_t step, int rank, double seconds) {
  if (rank >= kMaxRanks) return text("rank ", rank, " is not one of 0 … ", kMaxRanks - 1);
  ranks_ = std::max(ranks_, rank + 1);
  if (const double most = stretto::seconds(kLongestDuration); seconds > most) {
    return text("step ", step, " of rank ", rank, " takes ", seconds, " s; expected at most ", most, " s");
  }
  if (!stays(step)) return {};
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

Result<StepTimes> CollectedTimes::result() {
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
  if (std::ranges::all_of(all, [](float time) { return time == 0; })) {
    return wrong("says that no step took any time; expected seconds");
  }
  return StepTimes(ranks_, std::move(all));
}

Error CollectedTimes::wrong(const std::string& what) const {
  return {Errc::bad_input, text("'", source_, "' ", what)};
}

bool CollectedTimes::is_whole(const std::vector<float>& row) const {
  return row.size() == static_cast<std::size_t>(ranks_) && std::ranges::count(row, kMissing) == 0;
}

bool CollectedTimes::stays(std::uint64_t step) const {
  return step / kStretch % stride_ == 0;
}

void CollectedTimes::thin_out() {
  stride_ *= 2;
  std::erase_if(rows_, [this](const auto& row) {
    const bool goes = !stays(row.first);
    if (goes) kept_ -= row.second.size();
    return goes;
  });
}

}  // namespace stretto
