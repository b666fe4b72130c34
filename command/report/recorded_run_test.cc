#include "command/report/recorded_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "stretto/observe/run_folder.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/trace.h"
#include "stretto/train/job/summary_json.h"

namespace stretto::command {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Fate = TraceWriter::Fate;

/// Two ranks. The gradient of rank 1's second step comes late, and goes into the round after the next.
class RecordedRunTest : public ::testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const std::string root_ = temporary_.path() + "/runs";

  std::string write_run(const std::string& name, TrainOptions options = {.ranks = 2}) const {
    const RunFolder folder = RunFolder::create(root_ + "/" + name);
    EXPECT_TRUE(folder.write_config(to_json(options)));
    for (int rank = 0; rank < options.ranks; ++rank) {
      RecordWriter records(folder, rank);
      TraceWriter trace(folder.trace_file(rank), rank, TimePoint{});
      trace.tensor({.name = "fc.weight"});
      for (std::uint64_t step = 0; step < 3; ++step) {
        const bool late = rank == 1 && step == 1;
        records.add({.step = step,
                     .rank = rank,
                     .round = step + (late ? 1 : 0),
                     .base = step,
                     .begin = step * 10ms,
                     .computed = 1ms,
                     .paced = 2ms,
                     .delayed = 4ms,
                     .waited = 1ms});
        trace.round({.round = step,
                     .fate = late ? Fate::null : Fate::fresh,
                     .contributors = late ? 1 : 2,
                     .batches = step == 0   ? 2U
                                : step == 1 ? 1U
                                            : 3U},
                    TimePoint{} + step * 10ms + 8ms + rank * 1ms);
      }
    }
    return folder.path();
  }
  static std::string refusal(const std::string& path) {
    try {
      (void)read_recorded_run(path);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "none";
  }
};

TEST_F(RecordedRunTest, HasStepsAndTheRoundsThatTookThem) {
  const RecordedRun run = read_recorded_run(write_run("a") + "/");
  EXPECT_EQ(run.name, "a");
  EXPECT_FALSE(run.summary);
  ASSERT_EQ(run.ranks.size(), 2u);
  ASSERT_EQ(run.ranks[1].size(), 3u);
  EXPECT_EQ(run.ranks[0][2].begin, 0.02);
  EXPECT_EQ(run.ranks[0][2].computed, 0.003F);
  EXPECT_EQ(run.ranks[0][2].delayed, 0.004F);
  EXPECT_EQ(run.ranks[0][2].waited, 0.001F);
  EXPECT_EQ(run.ranks[0][1].staleness, 0u);
  EXPECT_EQ(run.ranks[1][1].staleness, 1u) << "computed on round 1's weights, taken by round 2";
  EXPECT_EQ(run.ranks[1][2].staleness, 0u);
  ASSERT_EQ(run.rounds.size(), 3u);
  EXPECT_EQ(run.rounds[1].at, 0.018) << "of the rank that had it first";
  EXPECT_EQ(run.rounds[1].contributors, 2);
}

TEST_F(RecordedRunTest, TheMergedTraceSaysTheSame) {
  const std::string path = write_run("a");
  const std::vector<std::string> parts{path + "/trace-0.jsonl", path + "/trace-1.jsonl"};
  ASSERT_TRUE(merge_traces(parts, path + "/trace.json"));
  ASSERT_TRUE(RunFolder::open(path).or_throw().write_summary(to_json(RunSummary{.ranks = 2, .throughput = 7})));
  const RecordedRun run = read_recorded_run(path);
  EXPECT_EQ(run.ranks[1][1].staleness, 1u);
  ASSERT_TRUE(run.summary);
  EXPECT_EQ(run.summary->throughput, 7);
}

TEST_F(RecordedRunTest, WhatARunThatHasEndedLacksIsNamed) {
  const auto gaps = [this](const std::function<void(const std::string&)>& damage) {
    const std::string path = write_run("a");
    const std::vector<std::string> parts{path + "/trace-0.jsonl", path + "/trace-1.jsonl"};
    EXPECT_TRUE(merge_traces(parts, path + "/trace.json"));
    const RunSummary summary{.ranks = 2, .deposits = {.made = 6, .applied = 6}};
    EXPECT_TRUE(RunFolder::open(path).or_throw().write_summary(to_json(summary)));
    damage(path);
    auto gaps = read_recorded_run(path).gaps;
    fs::remove_all(path);
    return gaps;
  };
  using Path = std::string;
  EXPECT_THAT(gaps([](const Path&) {}), ElementsAre());
  EXPECT_THAT(gaps([](const Path& path) { fs::remove(path + "/records-0.jsonl"); }),
              ElementsAre("no records of rank 0: records-0.jsonl is missing"));
  EXPECT_THAT(gaps([](const Path& path) { fs::resize_file(path + "/records-1.jsonl", 0); }),
              ElementsAre("no records of rank 1: records-1.jsonl is empty"));
  EXPECT_THAT(gaps([](const Path& path) {
                const Path file = path + "/records-1.jsonl";
                fs::resize_file(file, fs::file_size(file) - 20);
              }),
              ElementsAre("not all records of rank 1: records-1.jsonl ends within a line"));
  EXPECT_THAT(gaps([](const Path& path) {
                fs::remove(path + "/records-1.jsonl");
                fs::create_directory(path + "/records-1.jsonl");
              }),
              ElementsAre(HasSubstr("no records of rank 1: cannot read '")));
  EXPECT_THAT(gaps([](const Path& path) { std::ofstream(path + "/trace.json") << "no JSON"; }),
              ElementsAre("not all of the trace: trace.json is not as a run writes it"));
  EXPECT_THAT(gaps([](const Path& path) { fs::remove(path + "/trace.json"); }),
              ElementsAre("no trace: trace.json is missing"));
  EXPECT_THAT(gaps([](const Path& path) {
                fs::remove(path + "/trace.json");
                ASSERT_EQ(mkfifo((path + "/trace.json").c_str(), 0600), 0);
              }),
              ElementsAre(HasSubstr("no trace: cannot read '")));
}

TEST_F(RecordedRunTest, WhatIsNoRunIsToldInOneLine) {
  EXPECT_THAT(refusal(root_), HasSubstr("expected the folder that --out made"));
  const std::string path = write_run("a");
  for (const char* config : {"", "[]", "{\"workload\": \"vowels\"}", "{\"workload\": 3}"}) {
    std::ofstream(path + "/config.json") << config;
    EXPECT_THAT(refusal(path), HasSubstr("config.json' is not that of a run of this version: ")) << config;
  }
  fs::remove(path + "/config.json");
  EXPECT_EQ(refusal(path), "'" + path + "' is no folder of a run: it has no config.json");
  write_run("b");
  std::ofstream(root_ + "/b/summary.json") << "{}";
  EXPECT_THAT(refusal(root_ + "/b"), HasSubstr("summary.json' is no summary of a run"));
  fs::remove(root_ + "/b/summary.json");
  std::ofstream(root_ + "/b/prediction.json") << R"({"first_steps": 50, "predicted": 180, "drifts": [{"second": 1}]})";
  EXPECT_THAT(refusal(root_ + "/b"), HasSubstr("prediction.json' is not that of a run of this version"));
  fs::remove(root_ + "/b/prediction.json");
  for (int rank = 0; rank < 2; ++rank) std::ofstream(RunFolder::open(root_ + "/b").or_throw().records_file(rank));
  EXPECT_THAT(refusal(root_ + "/b"), HasSubstr("has no whole step of a rank yet"));
}

TEST_F(RecordedRunTest, OfAComparisonAreTheRunsOfTheLowestSeed) {
  TrainOptions options{.ranks = 2};
  for (const char* name : {"sync-seed2", "solo-seed2"}) {
    options.seed = 2;
    write_run(name, options);
  }
  for (const char* name : {"sync-seed1", "solo-seed1"}) {
    options.seed = 1;
    write_run(name, options);
    fs::last_write_time(root_ + "/" + name + "/config.json",
                        fs::file_time_type::clock::now() + (name[1] == 'y' ? 1h : 2h));
  }
  EXPECT_THAT(run_folders_in(root_), ElementsAre(root_ + "/sync-seed1", root_ + "/solo-seed1"));
  EXPECT_THAT(run_folders_in(root_ + "/sync-seed2"), ElementsAre(root_ + "/sync-seed2"));
  EXPECT_THROW((void)run_folders_in(root_ + "/nothing"), Failure);
  EXPECT_THROW((void)run_folders_in("/proc/self"), Failure);
}

RecordedStep step(float seconds, std::optional<std::uint32_t> staleness = {}) {
  return {.computed = seconds, .staleness = staleness};
}

TEST(RankStatistics, AreOfStepsWithoutTheirWait) {
  const std::vector<RecordedStep> steps{{.computed = 1, .delayed = 1, .waited = 8, .staleness = 0},
                                        {.computed = 4, .waited = 1, .staleness = 2},
                                        {.computed = 6}};
  const RankStatistics statistics = statistics_of(steps);
  EXPECT_EQ(statistics.steps, 3u);
  EXPECT_EQ(statistics.mean, 4);
  EXPECT_EQ(statistics.deviation, 2);
  EXPECT_EQ(statistics.least, 2);
  EXPECT_EQ(statistics.most, 6);
  EXPECT_EQ(statistics.computed, 11);
  EXPECT_EQ(statistics.delayed, 1);
  EXPECT_EQ(statistics.waited, 9);
  EXPECT_EQ(statistics.fresh, 1u);
  EXPECT_EQ(statistics.stale, 1u);
}

TEST(RankStatistics, OfNoStepAreNoNumbers) {
  const RankStatistics none = statistics_of({});
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.deviation) && std::isnan(none.least) && std::isnan(none.most));
}

TEST(Bars, GoFromTheShortestToTheLongestStepOfAllRuns) {
  std::vector<RecordedRun> runs(2);
  runs[0].ranks = {{step(1), step(2)}, {}};
  runs[1].ranks = {{step(61)}};
  runs[1].ranks[0].resize(200, step(31));
  const Bars bars = bars_of(runs);
  EXPECT_EQ(bars.from, 1);
  EXPECT_EQ(bars.width, 1);
  EXPECT_EQ(bars.count, 60u);
  EXPECT_FALSE(bars.open);
  const auto counts = histogram(runs[1].ranks[0], bars);
  EXPECT_EQ(counts[30], 199u);
  EXPECT_EQ(counts[59], 1u) << "the longest is in the last bar";
}

TEST(Bars, AFewStepsThatAreMuchLongerShareTheLast) {
  std::vector<RecordedRun> runs(1);
  runs[0].ranks = {std::vector<RecordedStep>(1000, step(2))};
  runs[0].ranks[0][0] = step(0);
  runs[0].ranks[0][1] = step(700);
  const Bars bars = bars_of(runs);
  EXPECT_TRUE(bars.open);
  EXPECT_DOUBLE_EQ(bars.width * 60, 3);
  EXPECT_EQ(histogram(runs[0].ranks[0], bars).back(), 1u);
}

TEST(Bars, OfStepsThatAreAllAlikeAreOne) {
  std::vector<RecordedRun> runs(1);
  runs[0].ranks = {{step(2), step(2)}};
  EXPECT_THAT(histogram(runs[0].ranks[0], bars_of(runs)), ElementsAre(2));
}

TEST(StalenessHistogram, CountsTheBatchesWhoseRoundIsKnown) {
  RecordedRun run;
  run.ranks = {{step(1, 0), step(1, 2), step(1)}, {step(1, 2)}};
  EXPECT_THAT(staleness_histogram(run), ElementsAre(1, 0, 2));
  run.ranks = {{step(1)}};
  EXPECT_THAT(staleness_histogram(run), IsEmpty());
}

}  // namespace

}  // namespace stretto::command
