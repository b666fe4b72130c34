#include "stretto/predict/measured/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "stretto/imbalance/trace_file.h"
#include "stretto/observe/run_folder.h"

namespace stretto {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

std::string file_with(const std::string& content) {
  std::string path = ::testing::TempDir() + "/step_times_" + std::to_string(::getpid()) + ".csv";
  std::ofstream(path) << content;
  return path;
}

std::string refused(const std::string& content) {
  const auto read = read_step_times(file_with(content));
  return read ? "nothing" : read.error().message;
}

TEST(StepTimes, OfAFileAreThoseOfItsRowsInAnyOrder) {
  const auto read = read_step_times(file_with("step,rank,seconds\n1,1,0.5\n0,0,1\n0,1,2\n1,0,0.25\n"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->ranks(), 2);
  ASSERT_EQ(read->steps(), 2u);
  EXPECT_THAT(read->step(0), ElementsAre(1, 2));
  EXPECT_THAT(read->step(1), ElementsAre(0.25, 0.5));
  EXPECT_EQ(read->mean(), 3.75 / 4);
  EXPECT_EQ(read->skew(), (1 + 0.25) / 2);
}

TEST(StepTimes, StartAtAnyStepAndEndWithTheLastThatAllHave) {
  const auto read = read_step_times(file_with("700,0,1\n700,1,2\n702,0,3\n702,1,4\n703,0,5\n"));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->steps(), 2u);
  EXPECT_THAT(read->step(1), ElementsAre(3, 4));
}

TEST(StepTimes, OfAFileThatIsNoneAreRefusedInOneLine) {
  EXPECT_THAT(refused(""), HasSubstr("has no rows step,rank,seconds"));
  EXPECT_THAT(refused("0,0,1\n1,0,1\n1,1,1\n"), HasSubstr("has no time of rank 1 in step 0, of 2 ranks"));
  EXPECT_THAT(refused("0,1,1\n1,0,1\n"), HasSubstr("has no time of rank 0 in step 0"));
  EXPECT_THAT(refused("0,0,1\n0,0,1\n"), HasSubstr("line 2 '0,0,1': a second row for step 0 and rank 0"));
  EXPECT_THAT(refused("0,0,-1\n"), HasSubstr("expected seconds from 0"));
  EXPECT_THAT(refused("0,0,nan\n"), HasSubstr("expected seconds from 0"));
  EXPECT_THAT(refused("0,-1,1\n"), HasSubstr("expected a rank of 0 or more"));
  EXPECT_THAT(refused("0,200000,1\n"), HasSubstr("rank 200000 is not one of"));
  EXPECT_THAT(refused("0;0;1\n"), HasSubstr("expected step,rank,seconds"));
  EXPECT_THAT(refused("0,1,1\n"), HasSubstr("has not one step of all its ranks"));
  EXPECT_THAT(refused("0,0,0\n0,1,0\n"), HasSubstr("no step took any time"));
  const auto other = read_step_times(::testing::TempDir());
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("is no folder of a run"));
  const auto missing = read_step_times("/nowhere/times.csv");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("cannot open '/nowhere/times.csv'"));
}

TEST(StepTimes, SayHowFarTheyHaveBeenRead) {
  std::string content = "step,rank,seconds\r\n";
  while (content.size() < 100'000) content += text(content.size(), ",0,1\r\n");
  std::vector<std::uint64_t> done;
  const auto read = read_step_times(file_with(content), [&](std::uint64_t bytes, std::uint64_t total) {
    done.push_back(bytes);
    EXPECT_EQ(total, content.size());
  });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_EQ(done.front(), 65536u) << "in pieces of 64 KiB";
  EXPECT_EQ(done.back(), content.size());
}

TEST(StepTimes, OfALongFileAreThoseOfStretchesEvenlyOverIt) {
  std::string content;
  constexpr std::size_t kSteps = (1 << 20) + 4;  // whole stretches of ten
  for (std::size_t step = 0; step < kSteps; ++step) {
    content += std::to_string(step) + ",0," + std::to_string(step % 1000) + "\n";
  }
  const auto read = read_step_times(file_with(content));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->steps(), kSteps / 2);
  for (std::size_t i = 0; i < read->steps(); ++i) {
    ASSERT_EQ(read->step(i)[0], static_cast<float>((i / 10 * 20 + i % 10) % 1000)) << i;
  }
}

TEST(StepTimes, OfARunAreWhatItsRanksHaveComputedPacedAndDelayed) {
  const std::string path = ::testing::TempDir() + "/step_times_run_" + std::to_string(::getpid());
  const RunFolder folder = RunFolder::create(path);
  ASSERT_TRUE(folder.write_config(R"({"workload": "digits", "ranks": 2})"));
  for (int rank = 0; rank < 2; ++rank) {
    RecordWriter writer(folder, rank);
    for (std::uint64_t step = 0; step < 3; ++step) {
      StepRecord record{.step = step, .rank = rank};
      record.computed = std::chrono::seconds(1);
      record.paced = std::chrono::seconds(rank);
      record.delayed = std::chrono::milliseconds(500 * step);
      record.waited = std::chrono::seconds(7);
      writer.add(record);
    }
    ASSERT_TRUE(writer.complete());
  }
  std::ofstream(folder.records_file(1), std::ios::app) << R"({"step":3,"ra)";  // killed in the middle of a line
  std::vector<std::uint64_t> done;
  const auto read = read_step_times(path, [&](std::uint64_t bytes, std::uint64_t total) {
    done.push_back(bytes);
    EXPECT_EQ(total,
              std::filesystem::file_size(folder.records_file(0)) + std::filesystem::file_size(folder.records_file(1)));
  });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(done, ElementsAre(std::filesystem::file_size(folder.records_file(0)),
                                Gt(std::filesystem::file_size(folder.records_file(0)))));
  ASSERT_EQ(read->steps(), 3u);
  EXPECT_THAT(read->step(2), ElementsAre(2, 3));
  std::filesystem::rename(folder.records_file(1), path + "/elsewhere");
  const auto half = read_step_times(path);
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().message, "'" + path + "' has no records of rank 1 of 2: no records-1.jsonl");
  std::ofstream(folder.records_file(0)) << "{}\n{}\n";
  const auto broken = read_step_times(path);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("line 1: no record of a step"));
  std::filesystem::remove_all(path);
}

TEST(StepTimes, ResampledAreBlocksOfWholeSteps) {
  std::vector<float> seconds;
  for (int step = 0; step < 50; ++step) {
    for (int rank = 0; rank < 3; ++rank) seconds.push_back(static_cast<float>(100 * step + rank));
  }
  const StepTimes times(3, seconds);
  const StepTimes drawn = times.resampled(1, 40, 10);
  ASSERT_EQ(drawn.steps(), 40u);
  std::set<float> starts;
  for (std::size_t step = 0; step < 40; ++step) {
    const float first = drawn.step(step)[0];
    EXPECT_THAT(drawn.step(step), ElementsAre(first, first + 1, first + 2));
    if (step % 10 != 0) {
      EXPECT_EQ(first, drawn.step(step - 1)[0] + 100);
    } else {
      starts.insert(first);
    }
  }
  EXPECT_GT(starts.size(), 1u);
  EXPECT_EQ(times.resampled(1, 40, 10).to_csv(), drawn.to_csv());
  EXPECT_NE(times.resampled(2, 40, 10).to_csv(), drawn.to_csv());
  EXPECT_EQ(StepTimes(1, {5}).resampled(1, 4, 10).steps(), 4u);  // a block is never longer than what there is
}

TEST(StepTimes, WithAnotherSkewKeepTheMeanOfEachStep) {
  const StepTimes times(3, {1, 2, 6});
  EXPECT_THAT(times.with_skew(0).step(0), ElementsAre(3, 3, 3));
  EXPECT_THAT(times.with_skew(0.5).step(0), ElementsAre(2, 2.5, 4.5));
  EXPECT_THAT(times.with_skew(2).step(0), ElementsAre(0, 1, 9));  // no time is below 0
  EXPECT_EQ(times.with_skew(0.5).skew(), times.skew() / 2);
}

TEST(StepTimes, WithNoiseAreLongerByItInTheMean) {
  const StepTimes times(2, std::vector<float>(20'000, 1));
  const StepTimes noisy = times.with_noise(1, 0.1);
  EXPECT_NEAR(noisy.mean(), 1.1, 0.003);
  EXPECT_NEAR(noisy.skew(), 0.1, 0.003);  // the difference of two such draws
  EXPECT_GE(std::ranges::min(noisy.step(0)), 1);
  EXPECT_EQ(noisy.to_csv(), times.with_noise(1, 0.1).to_csv());
  EXPECT_NE(noisy.to_csv(), times.with_noise(2, 0.1).to_csv());
  EXPECT_EQ(times.with_noise(1, 0).to_csv(), times.to_csv());
}

TEST(StepTimes, DrawnAreThoseOfTheImbalanceAndWrittenAsItReadsThem) {
  const Imbalance imbalance = Imbalance::parse("persistent:rank=1,factor=3+linear:0ms..250ms", 2);
  const StepTimes drawn = drawn_step_times(imbalance, 0.5, 2, 2, 1);
  EXPECT_THAT(drawn.step(1), ElementsAre(0.5, 1.75));
  const auto again = read_trace_file(file_with(drawn.to_csv()), 2);
  ASSERT_TRUE(again) << again.error().message;
  using std::chrono::milliseconds;
  EXPECT_THAT(*again, ElementsAre(milliseconds(500), milliseconds(1750), milliseconds(500), milliseconds(1750)));
}

/// Quantiles of exponential times with this mean on top of a constant.
std::vector<float> exponential(double constant, double mean) {
  std::vector<float> times;
  constexpr int kCount = 1000;
  for (int i = 0; i < kCount; ++i) {
    times.push_back(static_cast<float>(constant - mean * std::log(1 - (i + 0.5) / kCount)));
  }
  return times;
}

double mean(const std::vector<float>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

float quantile(const std::vector<float>& ascending, double p) {
  return ascending[static_cast<std::size_t>(p * static_cast<double>(ascending.size()))];
}

TEST(StepTimesModel, FindsAgainWhatItHasDrawn) {
  const StepTimesModel known{{{.persistence = 0.9, .times = exponential(0.1, 0.02)},
                              {.persistence = 0, .times = exponential(0.2, 0.1)},
                              {.persistence = -0.5, .times = exponential(0.4, 0.01)}}};
  StepTimesModel found = StepTimesModel::fit(known.draw(3, 50'000, 1));
  ASSERT_THAT(found.ranks, SizeIs(3));
  std::ranges::sort(found.ranks, {}, [](const RankTimesModel& rank) { return mean(rank.times); });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const RankTimesModel &drawn = known.ranks[rank], &fitted = found.ranks[rank];
    EXPECT_NEAR(fitted.persistence, drawn.persistence, 0.01) << rank;
    EXPECT_NEAR(mean(fitted.times) / mean(drawn.times), 1, 0.01) << rank;
    for (const double p : {0.05, 0.5, 0.95, 0.99}) {
      EXPECT_NEAR(quantile(fitted.times, p) / quantile(drawn.times, p), 1, 0.05) << rank << ", " << p;
    }
  }
}

TEST(StepTimesModel, GivesEachMeasuredRankItsTurn) {
  const StepTimesModel model = StepTimesModel::fit(StepTimes(3, {1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(model.ranks[0].persistence, 0);  // of equal times
  std::map<float, int> ranks;
  const StepTimes drawn = model.draw(11, 5, 1);
  for (const float time : drawn.step(0)) ++ranks[time];
  EXPECT_THAT(ranks, ElementsAre(Pair(1, Ge(3)), Pair(2, Ge(3)), Pair(3, Ge(3))));
  for (std::size_t step = 1; step < 5; ++step) {
    EXPECT_TRUE(std::ranges::equal(drawn.step(step), drawn.step(0))) << step;
  }
}

TEST(StepTimesModel, KeepsARankSlowForAsLongAsItWas) {
  // A hundred slow steps after each hundred fast ones: the step after is mostly like the one before.
  std::vector<float> times;
  for (int step = 0; step < 10'000; ++step) times.push_back(step / 100 % 2 == 0 ? 1 : 3);
  const auto changes = [](const StepTimes& times) {
    int changes = 0;
    for (std::size_t step = 1; step < times.steps(); ++step) changes += times.step(step)[0] != times.step(step - 1)[0];
    return changes;
  };
  const StepTimesModel model = StepTimesModel::fit(StepTimes(1, times));
  EXPECT_GT(model.ranks[0].persistence, 0.95);
  EXPECT_LT(changes(model.draw(1, 10'000, 1)), 1000);
  StepTimesModel forgetful = model;
  forgetful.ranks[0].persistence = 0;
  EXPECT_NEAR(changes(forgetful.draw(1, 10'000, 1)), 5000, 200);
}

TEST(StepTimesModel, RepeatsToTheBit) {
  const StepTimesModel model{{{.persistence = 0.5, .times = exponential(0.1, 0.02)}}};
  EXPECT_EQ(model.draw(4, 20, 7).to_csv(), model.draw(4, 20, 7).to_csv());
  EXPECT_NE(model.draw(4, 20, 7).to_csv(), model.draw(4, 20, 8).to_csv());
  EXPECT_THAT(StepTimesModel::fit(StepTimes(1, {5})).draw(2, 3, 1).step(2), Each(5));  // one step is enough
}

}  // namespace

}  // namespace stretto
