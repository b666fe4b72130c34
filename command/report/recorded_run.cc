#include "command/report/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/files/input_file.h"
#include "stretto/base/words.h"
#include "stretto/observe/round_header.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/trace.h"
#include "stretto/train/job/summary_json.h"

namespace stretto::command {
namespace {

constexpr std::size_t kBars = 60;
constexpr std::size_t kMostStale = 1000;  // a histogram of more than that says nothing to a person

}  // namespace

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Failure({Errc::bad_input, fmt::format("'{}' {}", path, why)});
}

bool is_run(const fs::path& folder) {
  std::error_code unknown;
  return fs::exists(stored_as(folder / "config.json"), unknown);
}

/// What the page says of how the run was made.
TrainOptions options_in(const std::string& path, const std::string& config) {
  try {
    return options_from_json(config);
  } catch (const std::exception& error) {
    refuse(path + "/config.json", fmt::format("is not that of a run of this version: {}", json_fault(error)));
  }
}

/// Of one rank, and what was found of them; Errc::io where they cannot be read.
Result<LinesFound> read_steps(const RunFolder& folder, int rank, std::vector<RecordedStep>& steps) {
  const auto take = [&](const StepRecord& record) {
    steps.push_back({.begin = seconds(record.begin),
                     .computed = static_cast<float>(seconds(record.computed + record.paced)),
                     .delayed = static_cast<float>(seconds(record.delayed)),
                     .waited = static_cast<float>(seconds(record.waited)),
                     .loss = static_cast<float>(record.loss),
                     .round = record.round,
                     .base = record.base,
                     .batch = record.batch,
                     .staleness = {}});
    return std::string();
  };
  return read_step_records(folder.records_file(rank), take);
}

/// Where the files of a rank are that its host has kept; empty: they should be here.
std::string elsewhere(const RecordedRun& run, int rank) {
  if (!run.summary) return {};
  for (const FilesElsewhere& kept : run.summary->files_elsewhere) {
    if (std::ranges::count(kept.ranks, rank) > 0) return fmt::format("they are on {} in '{}'", kept.host, kept.folder);
  }
  return {};
}

/// How many ranks have had a part in the run: where members change, as many as have had numbers.
int num_ranks(const RunFolder& folder, const RecordedRun& run) {
  int ranks = run.options.ranks;
  if (run.options.least == 0) return ranks;
  if (run.summary && run.summary->members) {
    return std::max(ranks, static_cast<int>(run.summary->members->batches.size()));
  }
  std::error_code unknown;
  for (int number = ranks; number < RoundHeader::kMaxNamedRanks; ++number) {
    if (fs::exists(stored_as(folder.records_file(number)), unknown)) ranks = number + 1;
  }
  return ranks;
}

/// Whether a rank is known to have had no part: one that waited as a spare, or a number that no process has had.
bool had_no_part(const RecordedRun& run, int rank) {
  if (run.options.least == 0) return false;
  if (!run.summary || !run.summary->members) return rank >= run.options.ranks;
  const auto& batches = run.summary->members->batches;
  return std::cmp_greater_equal(rank, batches.size()) || batches[static_cast<std::size_t>(rank)] == 0;
}

/// The steps of all ranks. What a rank should have recorded, and is not there, is a gap of the run: a file; of a run
/// that has ended also the rest of a file, where there are fewer records than batches.
void read_all_steps(const RunFolder& folder, RecordedRun& run) {
  std::vector<std::string> of_ended;
  std::uint64_t recorded = 0;
  const int ranks = num_ranks(folder, run);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<RecordedStep>& steps = run.ranks.emplace_back();
    const auto found = read_steps(folder, rank, steps);
    if (!found && found.error().code != Errc::io) throw Failure(found.error());
    recorded += steps.size();
    if (!found) {
      run.gaps.push_back(fmt::format("no records of rank {}: {}", rank, found.error().message));
    } else if (*found == LinesFound::no_file && had_no_part(run, rank)) {
      continue;
    } else if (*found == LinesFound::no_file) {
      const std::string kept = elsewhere(run, rank);
      run.gaps.push_back(fmt::format("no records of rank {}: {}", rank,
                                     kept.empty() ? fmt::format("records-{}.jsonl is missing", rank) : kept));
    } else if (*found == LinesFound::cut) {
      of_ended.push_back(fmt::format("not all records of rank {}: records-{}.jsonl ends within a line", rank, rank));
    } else if (steps.empty()) {
      of_ended.push_back(fmt::format("no records of rank {}: records-{}.jsonl is empty", rank, rank));
    }
  }
  const std::uint64_t made = run.summary ? run.summary->deposits.made : 0;
  if (recorded >= made) return;
  run.gaps.insert(run.gaps.end(), of_ended.begin(), of_ended.end());
  if (run.gaps.empty()) run.gaps.push_back(fmt::format("records of {} of its {} batches", recorded, made));
}

/// When a rank hands over the gradient of a step, in seconds since the start of the run.
double deposited(const RecordedStep& step) {
  return step.begin + step.seconds();
}

/// The rounds of a trace, and the ranks that brought something to each.
class Traced {
 public:
  explicit Traced(std::vector<std::vector<RecordedStep>>& ranks) : ranks_(ranks), next_(ranks.size()) {}

  void take(const HandedRound& handed) {
    const auto rank = static_cast<std::size_t>(handed.rank);
    if (rank >= ranks_.size()) return;
    Round& round = rounds_[handed.round.round];
    round.at = std::min(round.at, seconds(handed.when));
    round.contributors = std::max(round.contributors, handed.round.contributors);
    round.batches = std::max(round.batches, handed.round.batches);
    const bool fresh = handed.round.fate == TraceWriter::Fate::fresh;
    if (fresh || handed.round.fate == TraceWriter::Fate::stale) round.brought.emplace_back(rank, fresh);
  }

  std::vector<RecordedRound> rounds() const {
    std::vector<RecordedRound> all;
    for (const auto& [number, round] : rounds_) all.push_back({number, round.at, round.contributors});
    return all;
  }

  /// Books each gradient to the round that took it. A round took one of each rank that brought something. Where it took
  /// more, these are those that were deposited first, of ranks whose further gradients fit what the round says of them.
  void match() {
    for (const auto& [number, round] : rounds_) {
      std::uint64_t taken = 0;
      for (const auto& [rank, fresh] : round.brought) taken += book(rank, number) ? 1 : 0;
      while (taken < round.batches && book_first_of(round, number)) ++taken;
    }
  }

 private:
  struct Round {
    double at = std::numeric_limits<double>::max();
    int contributors = 0;
    std::uint64_t batches = 0;
    std::vector<std::pair<std::size_t, bool>> brought;  // ranks, and whether all that a rank brought was fresh
  };

  /// The oldest gradient of a rank that no round has taken; null where there is none.
  const RecordedStep* pending(std::size_t rank) const {
    return next_[rank] < ranks_[rank].size() ? &ranks_[rank][next_[rank]] : nullptr;
  }

  bool book(std::size_t rank, std::uint64_t round) {
    if (pending(rank) == nullptr) return false;
    RecordedStep& step = ranks_[rank][next_[rank]++];
    step.staleness = static_cast<std::uint32_t>(round - std::min(round, step.base));
    return true;
  }

  bool book_first_of(const Round& round, std::uint64_t number) {
    const RecordedStep* first = nullptr;
    std::size_t whose = 0;
    for (const auto& [rank, fresh] : round.brought) {
      const RecordedStep* step = pending(rank);
      if (step == nullptr || step->base > number || (fresh && step->base < number)) continue;
      if (first != nullptr && deposited(*first) <= deposited(*step)) continue;
      first = step;
      whose = rank;
    }
    return first != nullptr && book(whose, number);
  }

  std::vector<std::vector<RecordedStep>>& ranks_;
  std::vector<std::size_t> next_;  // of each rank, the first step that no round has taken
  std::map<std::uint64_t, Round> rounds_;
};

/// Of trace.json, or of the parts that ranks have written where there is none: such a run goes on, was cut short, or
/// its parts could not be merged.
void read_rounds(const RunFolder& folder, RecordedRun& run, Traced& traced) {
  const auto found_in = [&](const std::string& file) {
    const auto found = read_traced_rounds(file, [&traced](const HandedRound& round) { traced.take(round); });
    if (found) return *found;
    if (found.error().code != Errc::io) throw Failure(found.error());
    run.gaps.push_back(fmt::format("no trace: {}", found.error().message));
    return LinesFound::all;
  };
  const LinesFound merged = found_in(folder.file("trace.json"));
  if (merged == LinesFound::cut) run.gaps.emplace_back("not all of the trace: trace.json is not as a run writes it");
  if (merged != LinesFound::no_file) return;
  for (int rank = 0; std::cmp_less(rank, run.ranks.size()); ++rank) {
    const LinesFound part = found_in(folder.trace_file(rank));
    if (!run.summary || part == LinesFound::all) continue;
    if (part == LinesFound::no_file && rank == 0) {
      run.gaps.emplace_back("no trace: trace.json is missing");
      return;
    }
    run.gaps.push_back(fmt::format("not all of the trace: trace-{}.jsonl {}", rank,
                                   part == LinesFound::cut ? "ends within a line" : "is missing"));
  }
}

std::optional<RunSummary> summary_of(const RunFolder& folder) {
  const auto text = folder.read("summary.json");
  if (!text) return std::nullopt;
  const auto summary = summary_from_json(*text);
  if (!summary) refuse(folder.file("summary.json"), "is " + summary.error().message);
  return *summary;
}

/// That of `stretto train --predict`; empty where there is none.
std::string prediction_of(const RunFolder& folder) {
  const auto text = folder.read("prediction.json");
  if (!text) return {};
  try {
    const auto prediction = nlohmann::json::parse(*text);
    for (const char* number : {"first_steps", "predicted"}) (void)prediction.at(number).get<double>();
    for (const auto& drift : prediction.at("drifts")) {
      for (const char* number : {"second", "measured"}) (void)drift.at(number).get<double>();
      (void)drift.at("says").get<std::string>();
    }
    return *text;
  } catch (const nlohmann::json::exception& error) {
    refuse(folder.file("prediction.json"), fmt::format("is not that of a run of this version: {}", json_fault(error)));
  }
}

}  // namespace

std::vector<std::string> run_folders_in(const std::string& path) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) refuse(path, "is no folder of a run: expected what --out made");
  if (is_run(path)) return {path};
  std::map<std::pair<std::uint64_t, fs::file_time_type>, std::string> found;
  for (const auto& entry : fs::directory_iterator(path, unknown)) {
    if (!is_run(entry.path())) continue;
    const std::string folder = entry.path().string();
    const auto options = options_in(folder, RunFolder::open(folder).or_throw().read("config.json").or_throw());
    found.emplace(std::pair(options.seed, fs::last_write_time(stored_as(entry.path() / "config.json"), unknown)),
                  folder);
  }
  if (found.empty()) refuse(path, "is no folder of a run: it has no config.json, nor has a folder in it");
  std::vector<std::string> runs;
  for (const auto& [when, folder] : found) {
    if (when.first == found.begin()->first.first) runs.push_back(folder);
  }
  return runs;
}

RecordedRun read_recorded_run(const std::string& path) {
  const RunFolder folder = RunFolder::open(path).or_throw();
  const auto config = folder.read("config.json");
  if (!config) refuse(path, "is no folder of a run: it has no config.json");
  const fs::path last = fs::absolute(path).lexically_normal();
  RecordedRun run{.name = (last.has_filename() ? last : last.parent_path()).filename().string(),
                  .options = options_in(path, *config)};
  run.summary = summary_of(folder);
  read_all_steps(folder, run);
  if (std::ranges::all_of(run.ranks, [](const auto& steps) { return steps.empty(); })) {
    refuse(path, "has no whole step of a rank yet: there is nothing to report");
  }
  run.prediction = prediction_of(folder);
  Traced traced(run.ranks);
  read_rounds(folder, run, traced);
  traced.match();
  run.rounds = traced.rounds();
  return run;
}

RankStatistics statistics_of(std::span<const RecordedStep> steps) {
  RankStatistics statistics{.steps = steps.size()};
  std::vector<double> times;
  times.reserve(steps.size());
  for (const RecordedStep& step : steps) {
    times.push_back(step.seconds());
    statistics.computed += double{step.computed};
    statistics.delayed += double{step.delayed};
    statistics.waited += double{step.waited};
    if (step.staleness) ++(*step.staleness == 0 ? statistics.fresh : statistics.stale);
  }
  const double none = std::nan("");
  statistics.mean = steps.empty() ? none : mean(times);
  statistics.deviation = standard_deviation(times);
  statistics.least = steps.empty() ? none : *std::ranges::min_element(times);
  statistics.most = steps.empty() ? none : *std::ranges::max_element(times);
  return statistics;
}

Bars bars_of(std::span<const RecordedRun> runs) {
  std::vector<double> times;
  for (const RecordedRun& run : runs) {
    for (const auto& steps : run.ranks) {
      for (const RecordedStep& step : steps) times.push_back(step.seconds());
    }
  }
  std::ranges::sort(times);
  const double least = times.front(), most = times.back();
  const double usual = times[(times.size() - 1) * 99 / 100];
  const double end = most > 3 * usual ? 1.5 * usual : most;
  if (end <= least) return {.from = least, .width = 0, .count = 1, .open = most > least};
  return {.from = least, .width = (end - least) / kBars, .count = kBars, .open = most > end};
}

std::vector<std::uint64_t> histogram(std::span<const RecordedStep> steps, const Bars& bars) {
  std::vector<std::uint64_t> counts(bars.count);
  for (const RecordedStep& step : steps) {
    const double place = bars.width > 0 ? (step.seconds() - bars.from) / bars.width : 0;
    ++counts[static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(bars.count - 1)))];
  }
  return counts;
}

std::vector<std::uint64_t> staleness_histogram(const RecordedRun& run) {
  std::vector<std::uint64_t> counts;
  for (const auto& steps : run.ranks) {
    for (const RecordedStep& step : steps) {
      if (!step.staleness) continue;
      const std::size_t entry = std::min<std::size_t>(*step.staleness, kMostStale);
      if (counts.size() <= entry) counts.resize(entry + 1);
      ++counts[entry];
    }
  }
  return counts;
}

}  // namespace stretto::command
