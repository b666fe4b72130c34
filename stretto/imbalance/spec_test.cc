#include "stretto/imbalance/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::vector<Duration> delays(const Imbalance& imbalance, int ranks, std::uint64_t step, std::uint64_t seed = 1) {
  std::vector<Duration> out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(imbalance.draw(seed, rank, step).delay);
  return out;
}

std::vector<Duration> delays(const std::string& written, int ranks, std::uint64_t step) {
  return delays(Imbalance::parse(written, ranks), ranks, step);
}

TEST(Imbalance, NoneIsNothing) {
  EXPECT_FALSE(Imbalance().injected());
  const auto none = Imbalance::parse("none", 4);
  EXPECT_FALSE(none.injected());
  EXPECT_EQ(none.draw(1, 3, 99), Imbalance::Draw{});
  EXPECT_TRUE(Imbalance::parse("none+linear:1ms..2ms", 4).injected());
}

TEST(Imbalance, RandomDelaysAsManyRanksAsSaidAndAllAlike) {
  const int ranks = 8;
  for (int count : {1, 3, 8}) {
    const auto imbalance = Imbalance::parse("random:ranks=" + std::to_string(count) + ",delay=200ms", ranks);
    std::vector<int> hits(ranks);
    const int steps = 8000;
    for (int step = 0; step < steps; ++step) {
      const auto drawn = delays(imbalance, ranks, static_cast<std::uint64_t>(step));
      EXPECT_EQ(std::count(drawn.begin(), drawn.end(), 200ms), count);
      EXPECT_EQ(std::count(drawn.begin(), drawn.end(), 0ms), ranks - count);
      for (int rank = 0; rank < ranks; ++rank)
        hits[static_cast<std::size_t>(rank)] += drawn[static_cast<std::size_t>(rank)] > 0ms;
    }
    for (int hit : hits) EXPECT_NEAR(hit, 1.0 * steps * count / ranks, 200);
  }
}

TEST(Imbalance, DrawsDependOnSeedRankAndStepAlone) {
  const auto imbalance = Imbalance::parse("lognormal:mean=20ms,cv=0.5", 4);
  const auto again = Imbalance::parse("lognormal:mean=20ms,cv=0.5", 4);
  std::set<Duration> different;
  for (int rank = 3; rank >= 0; --rank) {
    for (std::uint64_t step : {7u, 0u, 100u}) {
      for (std::uint64_t seed : {1u, 2u}) {
        EXPECT_EQ(imbalance.draw(seed, rank, step), again.draw(seed, rank, step));
        different.insert(imbalance.draw(seed, rank, step).delay);
      }
    }
  }
  EXPECT_EQ(different.size(), 4u * 3u * 2u);
}

TEST(Imbalance, RotatesByOneRankEachStep) {
  using List = std::vector<Duration>;
  EXPECT_EQ(delays("rotate:50ms..400ms", 8, 0), (List{50ms, 100ms, 150ms, 200ms, 250ms, 300ms, 350ms, 400ms}));
  EXPECT_EQ(delays("rotate:50ms..400ms", 8, 1), (List{100ms, 150ms, 200ms, 250ms, 300ms, 350ms, 400ms, 50ms}));
  EXPECT_EQ(delays("rotate:50ms..400ms", 8, 8), delays("rotate:50ms..400ms", 8, 0));
  EXPECT_EQ(delays("rotate:50ms..400ms", 1, 5), List{50ms});
}

TEST(Imbalance, LinearGivesEachRankItsOwn) {
  const auto drawn = delays("linear:1ms..32ms", 32, 17);
  for (int rank = 0; rank < 32; ++rank) EXPECT_EQ(drawn[static_cast<std::size_t>(rank)], (rank + 1) * 1ms);
  EXPECT_EQ(delays("linear:1ms..32ms", 1, 0), std::vector<Duration>{1ms});
}

TEST(Imbalance, PersistentSlowsOneRank) {
  const auto delay = Imbalance::parse("persistent:rank=3,delay=40ms", 4);
  EXPECT_EQ(delay.draw(1, 3, 9), (Imbalance::Draw{40ms, 1}));
  EXPECT_EQ(delay.draw(1, 2, 9), (Imbalance::Draw{0ms, 1}));
  const auto factor = Imbalance::parse("persistent:rank=0,factor=3", 4);
  EXPECT_EQ(factor.draw(1, 0, 9), (Imbalance::Draw{0ms, 3}));
  EXPECT_EQ(factor.draw(1, 1, 9), (Imbalance::Draw{0ms, 1}));
}

TEST(Imbalance, SumsAddDelaysAndMultiplyFactors) {
  const auto sum =
      Imbalance::parse("linear:1ms..4ms+persistent:rank=1,factor=3+persistent:rank=1,delay=40ms,factor=2", 4);
  EXPECT_EQ(sum.draw(1, 1, 0), (Imbalance::Draw{42ms, 6}));
  EXPECT_EQ(sum.draw(1, 2, 0), (Imbalance::Draw{3ms, 1}));
  const auto twice = Imbalance::parse("lognormal:mean=1ms,cv=1+lognormal:mean=1ms,cv=1", 1);
  const auto once = Imbalance::parse("lognormal:mean=1ms,cv=1", 1);
  EXPECT_NE(twice.draw(1, 0, 0).delay, 2 * once.draw(1, 0, 0).delay) << "the two must be drawn independently";
}

struct Moments {
  double mean, deviation, low, high, median;
};
Moments moments(const std::string& written, int draws) {
  const auto imbalance = Imbalance::parse(written, 1);
  std::vector<double> values;
  double sum = 0, squares = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = seconds(imbalance.draw(5, 0, static_cast<std::uint64_t>(i)).delay);
    values.push_back(x);
    sum += x;
    squares += x * x;
  }
  std::sort(values.begin(), values.end());
  const double mean = sum / draws;
  return {mean, std::sqrt(squares / draws - mean * mean), values.front(), values.back(), values[values.size() / 2]};
}

TEST(Imbalance, PresetsHaveThePrintedMeanSpreadAndEnds) {
  const struct {
    const char* name;
    double mean, deviation, low, high;
  } printed[] = {{"ucf101", 1.235, 0.706, 0.201, 3.410},
                 {"wmt16", 0.475, 0.144, 0.179, 3.482},
                 {"cloud", 0.454, 0.116, 0.399, 1.892}};
  for (const auto& p : printed) {
    const auto m = moments(p.name, 100000);
    EXPECT_NEAR(m.mean, p.mean, 0.01 * p.mean) << p.name;
    EXPECT_NEAR(m.deviation, p.deviation, 0.02 * p.deviation) << p.name;
    EXPECT_GE(m.low, p.low - 1e-9) << p.name;
    EXPECT_LE(m.high, p.high + 1e-9) << p.name;
  }
  const auto habitat = moments("habitat", 5000);
  EXPECT_NEAR(habitat.low, 1.7, 1e-9);
  EXPECT_LT(habitat.median, 2.0);
  EXPECT_GT(habitat.high, 25);
  EXPECT_LE(habitat.high, 43.5);
}

TEST(Imbalance, LogNormalHasTheMomentsAskedFor) {
  const auto m = moments("lognormal:mean=20ms,cv=0.5", 100000);
  EXPECT_NEAR(m.mean, 0.020, 0.0002);
  EXPECT_NEAR(m.deviation, 0.010, 0.0003);
  const auto constant = moments("lognormal:mean=20ms,cv=0", 10);
  EXPECT_NEAR(constant.low, 0.020, 1e-9);
  EXPECT_NEAR(constant.high, 0.020, 1e-9);
}

TEST(Imbalance, ScalingMultipliesDelaysNotFactors) {
  const auto sum = Imbalance::parse("linear:10ms..40ms+persistent:rank=1,delay=100ms,factor=3", 4).scaled(0.1);
  EXPECT_EQ(sum.draw(1, 1, 0), (Imbalance::Draw{12ms, 3}));
  EXPECT_EQ(sum.to_string(), "linear:1ms..4ms+persistent:rank=1,delay=10ms,factor=3");
  const auto preset = Imbalance::parse("ucf101", 2);
  const auto tenth = Imbalance::parse("ucf101:scale=0.1", 2);
  EXPECT_EQ(preset.scaled(0.1).to_string(), "ucf101:scale=0.1");
  for (std::uint64_t step = 0; step < 100; ++step) {
    EXPECT_EQ(preset.scaled(0.1).draw(1, 1, step), tenth.draw(1, 1, step));
    EXPECT_NEAR(seconds(preset.draw(1, 1, step).delay) / 10, seconds(tenth.draw(1, 1, step).delay), 2e-9);
  }
}

class TraceTest : public ::testing::Test {
 protected:
  void write(const std::string& content) { std::ofstream(path_) << content; }
  ~TraceTest() override { std::remove(path_.c_str()); }
  const std::string path_ = ::testing::TempDir() + "stretto_trace_" + std::to_string(getpid()) + ".csv";
};

TEST_F(TraceTest, DelaysComeFromTheFileAndRepeat) {
  write("step,rank,seconds\n1,0,0.25\r\n# slow disk\n\n0, 1, 0.04\n0,0,1e-3 # warm-up\n");
  const auto imbalance = Imbalance::parse("trace:" + path_, 2);
  using List = std::vector<Duration>;
  EXPECT_EQ(delays(imbalance, 2, 0), (List{1ms, 40ms}));
  EXPECT_EQ(delays(imbalance, 2, 1), (List{250ms, 0ms}));
  EXPECT_EQ(delays(imbalance, 2, 2), (List{1ms, 40ms}));
  EXPECT_EQ(delays(imbalance.scaled(0.5), 2, 1), (List{125ms, 0ms}));
  EXPECT_EQ(imbalance.scaled(0.5).to_string(), "trace:" + path_ + ",scale=0.5");
  EXPECT_EQ(delays(Imbalance::parse(imbalance.scaled(0.5).to_string(), 2), 2, 1), (List{125ms, 0ms}));
}

std::string message(const std::string& written, int ranks = 8) {
  try {
    (void)Imbalance::parse(written, ranks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(TraceTest, AFirstRowThatIsWrongIsNoHeader) {
  write(
      "\xef\xbb\xbf"
      "0,0,0.5\n0,1,0.25\n");
  EXPECT_EQ(delays(Imbalance::parse("trace:" + path_, 2), 2, 0), (std::vector<Duration>{500ms, 250ms}));
  write(
      "\xef\xbb\xbf"
      "step,rank,seconds\n0,0,0.5\n");
  EXPECT_EQ(delays(Imbalance::parse("trace:" + path_, 2), 2, 0), (std::vector<Duration>{500ms, 0ms}));
  for (const char* header : {"rank,step,seconds\n1,0,0.5\n", "# of mine\n\nRank, Seconds, \"step\"\n1,0.5,0\n",
                             "host,seconds,loss,rank,step\nnode7,0.5,nan,1,0\n", "# rank,step,seconds\n1,0,0.5\n",
                             "# of mine\n\n#\"Rank\",Seconds,step,loss # all\n1,0.5,0,nan\n",
                             "# step,rank,seconds\nrank,step,seconds\n1,0,0.5\n",
                             "# rank, step and seconds\n# rank,step,time\n# columns: rank,step,seconds\n0,1,0.5\n",
                             "0,1,0.5\n# rank,step,seconds\n"}) {
    write(header);
    EXPECT_EQ(delays(Imbalance::parse("trace:" + path_, 2), 2, 0), (std::vector<Duration>{0ms, 500ms})) << header;
  }
  for (const char* header : {"step,rank,time", "step,rank", "step,rank,seconds,rank", "step;rank;seconds", "a,b,c"}) {
    write(text(header, "\n0,0,0.1\n"));
    EXPECT_THAT(message("trace:" + path_, 2),
                HasSubstr(text("line 1 '", header, "': expected a header with step, rank and seconds")));
  }
  for (const char* first : {"+0,0,0.1", "0x1,0,0.1", "step 0,0,0.1", "one,0,0.1"}) {
    write(text(first, "\n1,0,0.1\n"));
    EXPECT_THAT(message("trace:" + path_, 2), HasSubstr("expected step,rank,seconds")) << first;
  }
}

TEST_F(TraceTest, WhatIsNoFileIsRefused) {
  EXPECT_THAT(message("trace:/dev/zero", 2), HasSubstr("cannot read '/dev/zero': it is no file"));
  EXPECT_THAT(message("trace:/tmp", 2), HasSubstr("cannot read '/tmp': it is a folder"));
}

TEST(Imbalance, WhatItWritesItReads) {
  for (const char* written :
       {"none", "random:ranks=1,delay=200ms", "rotate:50ms..400ms", "linear:1ms..32ms", "persistent:rank=3,delay=40ms",
        "persistent:rank=3,factor=3", "persistent:rank=3,delay=1.5s,factor=0.7", "lognormal:mean=20ms,cv=0.333",
        "ucf101", "wmt16:scale=0.015", "cloud", "habitat:scale=0.01", "linear:1us..2us+random:ranks=2,delay=30ns"}) {
    EXPECT_EQ(Imbalance::parse(written, 8).to_string(), written);
  }
  // Too small for a number with all its digits.
  EXPECT_EQ(Imbalance::parse("lognormal:mean=20ms,cv=1e-308", 8).to_string(), "lognormal:mean=20ms,cv=1e-308");
  EXPECT_EQ(Imbalance::parse("random:delay=0.2s,ranks=1+none", 8).to_string(), "random:ranks=1,delay=200ms");
}

TEST(Imbalance, MistakesNameTheValueWhatWasExpectedAndAnExampleThatWorks) {
  const char* wrong[] = {"",
                         "fast",
                         "random",
                         "random:",
                         "random:ranks=9,delay=1ms",
                         "random:ranks=0,delay=1ms",
                         "random:ranks=-1,delay=1ms",
                         "random:ranks=1",
                         "random:ranks=1,delay=5",
                         "random:ranks=1,delay=-5ms",
                         "random:ranks=1,delay=1ms,delay=2ms",
                         "random:ranks=1,,delay=1ms",
                         "random:ranks=1,speed=2",
                         "rotate:50ms",
                         "rotate:400ms..50ms",
                         "rotate:..50ms",
                         "linear",
                         "linear:1..32",
                         "persistent:rank=8,delay=40ms",
                         "persistent:rank=3",
                         "persistent:delay=40ms",
                         "persistent:rank=3,factor=0",
                         "persistent:rank=3,factor=nan",
                         "persistent:rank=3.5,factor=2",
                         "lognormal:mean=0ms,cv=1",
                         "lognormal:mean=1ms",
                         "lognormal:mean=1ms,cv=-1",
                         "trace",
                         "ucf101:0.1",
                         "ucf101:scale=0",
                         "ucf101:scale=inf",
                         "none:1",
                         "linear:1ms..2ms+",
                         "+",
                         "linear:1ms..2ms+fast"};
  for (const char* written : wrong) {
    const std::string said = message(written);
    EXPECT_THAT(said, HasSubstr(std::string("imbalance '") + written + "'"));
    EXPECT_EQ(said.find('\n'), std::string::npos);
    const auto start = said.rfind("; '");
    const auto end = said.rfind("' would work");
    ASSERT_TRUE(start != std::string::npos && end != std::string::npos) << said;
    const std::string example = said.substr(start + 3, end - start - 3);
    if (example.rfind("trace:", 0) != 0) {
      EXPECT_EQ(message(example), "no error") << said;
    }
  }
  EXPECT_EQ(
      message("random:ranks=9,delay=1ms"),
      "imbalance 'random:ranks=9,delay=1ms': ranks=9 is not one of 1 … 8; 'random:ranks=1,delay=200ms' would work");
  EXPECT_EQ(message("trace:/nowhere/at/all.csv"),
            "imbalance 'trace:/nowhere/at/all.csv': cannot open '/nowhere/at/all.csv': No such file or directory");
  EXPECT_THAT(message("linear:1ms..2ms+fast"), HasSubstr("at 'fast': expected none, random"));
  EXPECT_THAT(message("persistent:rank=0,delay=1ms", 0), HasSubstr("0 ranks"));
}

TEST_F(TraceTest, ABrokenFileIsNamedWithItsLine) {
  const auto said = [&](const std::string& content) {
    write(content);
    return message("trace:" + path_, 2);
  };
  EXPECT_THAT(said(""), HasSubstr("has no rows"));
  EXPECT_THAT(said("step,rank,seconds\n"), HasSubstr("has no rows"));
  EXPECT_THAT(said("step,rank,seconds\nstep,rank,seconds\n"), HasSubstr("line 2"));
  EXPECT_THAT(said("0,0,0.1\n0,1"), HasSubstr("line 2 '0,1': expected step,rank,seconds"));
  EXPECT_THAT(said("0,2,0.1\n"), HasSubstr("rank 2 is not one of 0 … 1"));
  EXPECT_THAT(said("0,1,-0.1\n"), HasSubstr("line 1"));
  EXPECT_THAT(said("0,1,nan\n"), HasSubstr("line 1"));
  EXPECT_THAT(said("0,1,0.1\n0,1,0.2\n"), HasSubstr("a second row for step 0 and rank 1"));
  EXPECT_THAT(said("99999999999,1,0.1\n"), HasSubstr("largest possible"));
  EXPECT_THAT(said("-1,1,0.1\n"), HasSubstr("line 1"));
  EXPECT_THAT(said("0.5,1,0.1\n"), HasSubstr("line 1"));
}

}  // namespace
}  // namespace stretto
