#include "command/bench_allreduce.h"

#include <gmock/gmock.h>

#include <cmath>

#include "command/background_load.h"

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

AllreduceSample sample(const std::string& library, int repetition, double microseconds, double background = 0) {
  return {library, 4, repetition, {1000, 10, microseconds}, background};
}

TEST(AllreducePeers, PrintALineASize) {
  const auto times = parse_allreduce_times("warning: something\n8 1000 0.5\n\n1024 77 12.25\n");
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].bytes, 8u);
  EXPECT_EQ(times[1].calls, 77);
  EXPECT_EQ(times[1].microseconds, 12.25);
}

TEST(AllreduceFigure, IsTheMedianOfWhatWasMeasuredOnAQuietMachine) {
  const std::vector<AllreduceSample> samples = {sample("ours", 0, 1), sample("ours", 1, 90, 0.5), sample("ours", 2, 3),
                                                sample("ours", 3, 2), sample("theirs", 0, 50)};
  const AllreduceFigure figure = figure_of(samples, "ours", 4, 1000);
  EXPECT_EQ(figure.microseconds.estimate, 2);
  EXPECT_EQ(figure.repetitions, 3);
  EXPECT_EQ(figure.loaded, 1);
  EXPECT_NEAR(figure.bus_bandwidth, 2.0 * 3 / 4 * 1000 / 2e-6 / 1e9, 1e-12);
}

TEST(AllreduceFigure, TakesLoadedRepetitionsWhereThereAreNoOthers) {
  const std::vector<AllreduceSample> samples = {sample("ours", 0, 7, 0.5)};
  EXPECT_EQ(figure_of(samples, "ours", 4, 1000).microseconds.estimate, 7);
  EXPECT_EQ(figure_of(samples, "ours", 4, 2000).repetitions, 0);
}

TEST(MeasureAllreduce, TimesEverySize) {
  const std::vector<std::uint64_t> sizes = {8, 4096};
  const auto times = measure_allreduce(3, 2ms, sizes);
  ASSERT_TRUE(times.ok()) << times.error().message;
  ASSERT_EQ(times->size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*times)[i].bytes, sizes[i]);
    EXPECT_GE((*times)[i].calls, 1);
    EXPECT_GT((*times)[i].microseconds, 0);
  }
}

TEST(BackgroundLoad, IsAShare) {
  const double load = background_load(20ms);
  EXPECT_TRUE(std::isnan(load) || (load >= 0 && load <= 1)) << load;
}

}  // namespace
}  // namespace stretto::command
