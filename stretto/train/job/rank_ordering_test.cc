#include "stretto/train/job/step/rank_ordering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "stretto/train/job/summary_json.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

/// 10 steps of 20 ms: 40 tensors in 20 buffers, each tensor negotiated for 5 ms.
RankOrdering ten_steps() {
  RankOrdering rank{
      .clock = "here", .steps = 10, .step_p50 = 0.020, .step_p99 = 0.050, .application = 30ms, .input = 20ms};
  rank.sharing = {.slice_ns = 3'000'000, .throttled_periods = 4, .throttled_microseconds = 2500};
  rank.statistics = {.steps = 10,
                     .tensors = 40,
                     .buffers = 20,
                     .buffer_bytes = 20 * 4096,
                     .void_buffers = 3,
                     .deviations = 2,
                     .cycles = 50,
                     .controls = 60,
                     .control_messages = 120,
                     .control_bytes = 12'000,
                     .negotiation = 200ms,
                     .background_cpu = 10ms,
                     .spun = 5ms};
  for (int late = 1; late <= 5; ++late) rank.statistics.note_oversleep(1ms * late);
  for (int cycle = 0; cycle < 3; ++cycle) rank.statistics.note_cycle(5ms + 1ms * cycle);
  return rank;
}

OrderingFigures there_and_back(const OrderingFigures& figures) {
  return summary_from_json(to_json(RunSummary{.ordering = figures})).or_throw().ordering.value();
}

TEST(RankOrdering, ThereAndBackAsJson) {
  RankOrdering rank = ten_steps();
  rank.statistics.note_arrival({7ms});
  rank.statistics.note_arrival({9ms});
  rank.statistics.note_buffer(
      {.set = 1, .number = 5, .begun = {8ms}, .submitted = {TimePoint{3ms}, TimePoint::never()}});
  const std::string text = to_json(RankReport{.ordering = rank});
  const RankOrdering back = rank_report_from_json(text).or_throw().ordering.value();
  EXPECT_EQ(to_json(RankReport{.ordering = back}), text);
  EXPECT_EQ(back.clock, "here");
  EXPECT_EQ(back.steps, 10u);
  EXPECT_EQ(back.step_p50, 0.020);
  EXPECT_EQ(back.step_p99, 0.050);
  EXPECT_EQ(back.application, 30ms);
  EXPECT_EQ(back.input, 20ms);
  EXPECT_EQ(back.sharing, rank.sharing);
  const OrderingStatistics& s = back.statistics;
  EXPECT_THAT((std::vector{s.steps, s.tensors, s.buffers, s.buffer_bytes, s.void_buffers, s.deviations, s.cycles,
                           s.controls, s.control_messages, s.control_bytes, s.syncs}),
              ElementsAre(10, 40, 20, 20 * 4096, 3, 2, 50, 60, 120, 12'000, 2));
  EXPECT_THAT((std::vector{s.negotiation, s.background_cpu, s.spun}), ElementsAre(200ms, 10ms, 5ms));
  EXPECT_THAT(s.oversleeps, ElementsAre(1ms, 2ms, 3ms, 4ms, 5ms));
  EXPECT_THAT(s.cycle_times, ElementsAre(5ms, 6ms, 7ms));
  EXPECT_THAT(s.arrivals, ElementsAre(TimePoint{7ms}, TimePoint{9ms}));
  ASSERT_EQ(s.buffer_times.size(), 1u);
  EXPECT_EQ(s.timed_tensors, 2u);
  EXPECT_EQ(s.buffer_times[0].set, 1);
  EXPECT_EQ(s.buffer_times[0].number, 5u);
  EXPECT_EQ(s.buffer_times[0].begun, TimePoint{8ms});
  EXPECT_THAT(s.buffer_times[0].submitted, ElementsAre(TimePoint{3ms}, TimePoint::never()));
}

TEST(OrderingFigures, AreThoseOfAStep) {
  const std::vector ranks{ten_steps()};
  const OrderingFigures figures = ordering_figures(ranks);
  ASSERT_EQ(figures.ranks.size(), 1u);
  for (const auto& rank : {figures.ranks[0], figures.all}) {
    EXPECT_DOUBLE_EQ(rank.step_p50, 0.020);
    EXPECT_DOUBLE_EQ(rank.step_p99, 0.050);
    EXPECT_DOUBLE_EQ(rank.cycle_p50, 0.006);
    EXPECT_DOUBLE_EQ(rank.negotiation, 0.005);
    EXPECT_DOUBLE_EQ(rank.negotiation_share, 0.25);
    EXPECT_DOUBLE_EQ(rank.buffers, 2);
    EXPECT_DOUBLE_EQ(rank.fill, 4096);
    EXPECT_DOUBLE_EQ(rank.cycles, 5);
    EXPECT_DOUBLE_EQ(rank.control_messages, 12);
    EXPECT_DOUBLE_EQ(rank.control_bytes, 1200);
    EXPECT_DOUBLE_EQ(rank.application_cpu, 0.003);
    EXPECT_DOUBLE_EQ(rank.input_cpu, 0.002);
    EXPECT_DOUBLE_EQ(rank.background_cpu, 0.001);
    EXPECT_DOUBLE_EQ(rank.spin_cpu, 0.0005);
    EXPECT_DOUBLE_EQ(rank.oversleep_p50, 0.003);
    EXPECT_DOUBLE_EQ(rank.oversleep_max, 0.005);
    EXPECT_DOUBLE_EQ(rank.slice_seconds.value(), 0.003);
    EXPECT_DOUBLE_EQ(rank.throttled_periods.value(), 4);
    EXPECT_DOUBLE_EQ(rank.throttled_seconds.value(), 0.0025);
    EXPECT_EQ(rank.deviations, 2u);
    EXPECT_EQ(rank.void_buffers, 3u);
  }
  EXPECT_TRUE(figures.cascade.empty()) << "one rank has nobody to be late for";
}

TEST(OrderingFigures, OverAllRanks) {
  std::vector ranks{ten_steps(), ten_steps()};
  ranks[1].statistics.negotiation = 400ms;
  ranks[1].statistics.oversleeps = {9ms};
  ranks[1].step_p50 = 0.010;
  ranks[1].step_p99 = 0.070;
  ranks[1].statistics.cycle_times = {9ms, 9ms, 9ms, 9ms};
  // Rank 1 hands the tensor over 4 ms after rank 0, and comes 2 ms after it to every sync.
  ranks[0].statistics.note_buffer({.begun = {10ms}, .submitted = {TimePoint{1ms}}});
  ranks[1].statistics.note_buffer({.begun = {10ms}, .submitted = {TimePoint{5ms}}});
  for (int sync = 0; sync < 20; ++sync) {
    for (int rank = 0; rank < 2; ++rank) ranks[rank].statistics.note_arrival({10ms * sync + 2ms * rank});
  }
  const OrderingFigures figures = ordering_figures(ranks);
  EXPECT_DOUBLE_EQ(figures.ranks[1].negotiation, 0.010);
  EXPECT_DOUBLE_EQ(figures.ranks[1].negotiation_share, 1);
  EXPECT_DOUBLE_EQ(figures.all.negotiation, 0.0075);
  EXPECT_DOUBLE_EQ(figures.all.negotiation_share, (0.25 + 1) / 2);
  EXPECT_DOUBLE_EQ(figures.ranks[0].stall.value(), 0.004);
  EXPECT_DOUBLE_EQ(figures.ranks[0].stall_share.value(), 0.2);
  EXPECT_DOUBLE_EQ(figures.ranks[1].stall.value(), 0);
  EXPECT_DOUBLE_EQ(figures.all.stall.value(), 0.002);
  EXPECT_DOUBLE_EQ(figures.all.stall_share.value(), 0.1);
  EXPECT_DOUBLE_EQ(figures.all.oversleep_max, 0.009);
  EXPECT_DOUBLE_EQ(figures.all.step_p50, 0.015) << "the middle one of the ranks";
  EXPECT_DOUBLE_EQ(figures.all.step_p99, 0.070) << "the longest of the ranks";
  EXPECT_DOUBLE_EQ(figures.all.cycle_p50, 0.009) << "of all cycles of all ranks";
  EXPECT_EQ(figures.all.deviations, 2u) << "the same steps on both";
  EXPECT_EQ(figures.all.void_buffers, 6u);
  EXPECT_DOUBLE_EQ(figures.skew_p50, 0.002);
  EXPECT_DOUBLE_EQ(figures.skew_p99, 0.002);
  EXPECT_EQ(figures.cascade.size(), 8u);
}

TEST(OrderingFigures, WhatAHostHasThrottledIsNotAddedUpOverItsRanks) {
  std::vector ranks{ten_steps(), ten_steps(), ten_steps()};
  ranks[1].sharing = {.throttled_periods = 7};
  ranks[2].sharing = {};
  const OrderingFigures figures = ordering_figures(ranks);
  EXPECT_DOUBLE_EQ(figures.all.slice_seconds.value(), 0.003);
  EXPECT_DOUBLE_EQ(figures.all.throttled_periods.value(), 7);
  EXPECT_DOUBLE_EQ(figures.all.throttled_seconds.value(), 0.0025);
  EXPECT_DOUBLE_EQ(figures.ranks[1].throttled_periods.value(), 7);
  EXPECT_FALSE(figures.ranks[1].slice_seconds || figures.ranks[2].throttled_seconds);
  const OrderingFigures back = there_and_back(figures);
  EXPECT_EQ(back.all.throttled_seconds, figures.all.throttled_seconds);
  EXPECT_EQ(back.ranks.at(1).slice_seconds, std::nullopt);
}

TEST(OrderingMeter, CountsWhatTheThreadUsesAndAsksForNoKernelInVirtualTime) {
  for (const bool real : {false, true}) {
    const OrderingMeter meter(real);
    for (const Duration until = thread_time() + 2ms; thread_time() < until;) {
    }
    RankOrdering rank;
    meter.read(rank, std::nullopt);
    EXPECT_GE(rank.application, 2ms);
    EXPECT_EQ(rank.clock, name_of_this_clock());
    EXPECT_EQ(rank.sharing.slice_ns, real ? core_sharing().slice_ns : std::nullopt);
    rank.statistics.note_arrival({5s});
    meter.read(rank, 2s);
    EXPECT_EQ(rank.clock, "of rank 0");
    EXPECT_EQ(rank.statistics.arrivals.front(), TimePoint{3s});
  }
}

TEST(OrderingFigures, SeveralClocksAreNotCompared) {
  std::vector ranks{ten_steps(), ten_steps()};
  ranks[1].clock = "elsewhere";
  for (RankOrdering& rank : ranks) {
    rank.statistics.note_arrival({1ms});
    rank.statistics.note_buffer({.begun = {10ms}, .submitted = {TimePoint{1ms}}});
  }
  const OrderingFigures figures = ordering_figures(ranks);
  EXPECT_FALSE(figures.all.stall || figures.all.stall_share || figures.ranks[1].stall);
  EXPECT_TRUE(figures.cascade.empty());
  EXPECT_DOUBLE_EQ(figures.all.negotiation, 0.005) << "needs no clock but its own";
}

TEST(OrderingFigures, ThereAndBackAsJson) {
  std::vector ranks{ten_steps(), ten_steps()};
  for (const char* clock : {"here", "elsewhere"}) {
    ranks[1].clock = clock;
    for (RankOrdering& rank : ranks) rank.statistics.note_arrival({1ms});
    OrderingFigures figures = ordering_figures(ranks);
    figures.cores = CoreSets{.application = {0, 1}, .input = {2}, .background = {2}, .overlap = true};
    const OrderingFigures back = there_and_back(figures);
    EXPECT_EQ(to_json(RunSummary{.ordering = back}), to_json(RunSummary{.ordering = figures}));
    EXPECT_EQ(back.all.stall, figures.all.stall);
    EXPECT_EQ(back.ranks.at(1).deviations, 2u);
    EXPECT_EQ(back.ranks.at(1).fill, 4096);
    EXPECT_EQ(back.cores, figures.cores);
  }
}

TEST(OrderingFigures, OfNothing) {
  const OrderingFigures none = ordering_figures(std::vector{RankOrdering{.clock = "here"}});
  EXPECT_EQ(none.all.negotiation, 0);
  EXPECT_EQ(none.all.negotiation_share, 0);
  EXPECT_EQ(none.all.fill, 0);
  EXPECT_EQ(none.all.oversleep_p99, 0);
  EXPECT_EQ(none.all.stall, 0);
  EXPECT_EQ(none.all.cycle_p50, 0);
}

}  // namespace
}  // namespace stretto
