#include "stretto/ordering/ordered_allreduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/ordering/testing/ordered_job.h"
#include "stretto/ordering/testing/planned_orderer.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Five tensors of a step: two fused with one that is another time unused, one alone, one empty.
const PlannedOrderer::Plan kPlan = {
    {{.name = "a", .type = DataType::int64, .count = 3}, {.name = "b", .type = DataType::int64, .count = 1}},
    {{.name = "alone", .type = DataType::int64, .count = 40}},
    {{.name = "c", .type = DataType::int64, .count = 7}, {.name = "empty", .type = DataType::int64, .count = 0}}};

std::vector<TensorDescription> tensors_of(const PlannedOrderer::Plan& plan) {
  std::vector<TensorDescription> all;
  for (const auto& buffer : plan) all.insert(all.end(), buffer.begin(), buffer.end());
  return all;
}

const OrderingOptions kSmallBuffers{.fusion_bytes = 128};  // also as chunks of a board

OrdererFactory planned(const PlannedOrderer::Plan& plan = kPlan, std::set<StepNumber> changes = {}) {
  return [=](const ProcessSet&) { return std::make_unique<PlannedOrderer>(plan, changes); };
}

class Ordered : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Ordered, ::testing::Values(1, 2, 3, 4, 5, 7, 8));

TEST_P(Ordered, SumsWhateverTheOrderOfSubmission) {
  const int ranks = GetParam();
  const auto tensors = tensors_of(kPlan);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    run_ordered(ranks, seed, {.fusion_bytes = 128, .in_flight = 1 + static_cast<int>(seed % 4)}, planned(),
                [&](VirtualRank& rank, OrderedAllreduce& all) {
                  Random random(seed, static_cast<std::uint64_t>(rank.rank()));
                  OrderedMemory memory(tensors);
                  for (StepNumber step = 0; step < 5; ++step) {
                    memory.fill(rank.rank(), step);
                    ASSERT_EQ(all.begin_step({.samples = 10 + step, .computed = 1s, .waited = 2s}), step);
                    for (const std::size_t t : shuffled(tensors.size(), random)) {
                      rank.compute(Duration(static_cast<std::int64_t>(random.below(50'000))));
                      memory.submit(all, t);
                    }
                    const auto apply = [&](const OrderedStep& done) {
                      EXPECT_EQ(done.step, step);
                      EXPECT_EQ(done.header->batches, static_cast<std::uint64_t>(ranks));
                      EXPECT_EQ(done.header->samples, static_cast<std::uint64_t>(ranks) * (10 + step));
                      EXPECT_EQ(done.header->num_fresh(), ranks);
                      EXPECT_EQ(done.header->num_stale(), 0);
                      EXPECT_EQ(done.header->num_arrived(), ranks);
                      EXPECT_EQ(done.header->max_staleness(step), 0u);
                      EXPECT_EQ(done.header->times.back(),
                                (RankTimes{static_cast<std::uint16_t>(ranks - 1), 0, 1.0f, 2.0f, 0.0f}));
                      EXPECT_EQ(done.reduced.size(), tensors.size());
                      memory.expect_sums(ranks_from_0(ranks), step);
                    };
                    all.end_step(rank, rank.deadline(10s), apply).or_throw();
                  }
                  EXPECT_EQ(all.finish(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw(), 0);
                  const OrderingStatistics cost = all.statistics();
                  EXPECT_EQ(cost.steps, 5u);
                  EXPECT_EQ(cost.tensors, 5 * tensors.size());
                  EXPECT_EQ(cost.void_buffers, 0u);
                  std::uint64_t handed_over = 0;  // what a drained rank brings no more has no time
                  for (const BufferTimes& buffer : cost.buffer_times) {
                    handed_over += buffer.submitted.size() -
                                   static_cast<std::uint64_t>(std::ranges::count(buffer.submitted, TimePoint::never()));
                  }
                  EXPECT_EQ(handed_over, cost.tensors);
                  EXPECT_EQ(all.memory_bytes(), 0u);
                });
  }
}

TEST(OrderedNeighbours, AreNotCopiedByMessages) {
  const PlannedOrderer::Plan plan = {
      {{.name = "a", .type = DataType::int64, .count = 3}, {.name = "b", .type = DataType::int64, .count = 2}}};
  struct Layout {
    std::vector<std::size_t> in, out;  // where the two lie, among five elements
    bool copied;
  };
  for (const Layout& layout :
       {Layout{{0, 3}, {0, 3}, false}, Layout{{2, 0}, {0, 3}, true}, Layout{{0, 3}, {2, 0}, true}}) {
    run_ordered(3, 8, {}, planned(plan), [&](VirtualRank& rank, OrderedAllreduce& all) {
      std::vector<std::int64_t> in(5), out(5);
      if (rank.rank() != 0) rank.compute(1s);
      all.begin_step({});
      for (std::size_t t = 0; t < 2; ++t) {
        const TensorDescription& tensor = plan[0][t];
        const std::span<std::int64_t> mine = std::span(in).subspan(layout.in[t], tensor.count);
        for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = ordered_number(rank.rank(), 0, t, i);
        all.submit(tensor, Argument::in(mine), Argument::out(std::span(out).subspan(layout.out[t], tensor.count)));
      }
      const auto apply = [](const OrderedStep&) {};
      if (rank.rank() == 0) {
        const auto waits = all.end_step(rank, rank.deadline(10ms), apply);
        EXPECT_EQ(waits.error().code, Errc::timeout);
        EXPECT_EQ(all.memory_bytes() > 0, layout.copied);
      }
      all.end_step(rank, rank.deadline(10s), apply).or_throw();
      for (std::size_t t = 0; t < 2; ++t) {
        for (std::size_t i = 0; i < plan[0][t].count; ++i) {
          const std::int64_t sum = ordered_number(0, 0, t, i) + ordered_number(1, 0, t, i) + ordered_number(2, 0, t, i);
          EXPECT_EQ(out[layout.out[t] + i], sum) << t << '[' << i << ']';
        }
      }
      EXPECT_EQ(all.finish(rank, rank.deadline(10s), apply).or_throw(), 0);
    });
  }
}

TEST(OrderedMemory, IsThatOfTheRanksWhereTheyShareEnough) {
  const PlannedOrderer::Plan plan = {{{.name = "a", .type = DataType::int64, .count = 100}}};
  struct Case {
    std::uint64_t seed, bytes;  // an odd seed: they share 8 MiB
    bool shared;
  };
  for (const Case& c : {Case{1, 800, true}, Case{1, std::uint64_t{4} << 20, false}, Case{2, 800, false}}) {
    run_ordered(3, c.seed, {.fusion_bytes = 128, .memory_bytes = c.bytes}, planned(plan),
                [&](VirtualRank& rank, OrderedAllreduce& all) {
                  ASSERT_EQ(all.memory().size(), c.shared ? c.bytes : 0);
                  std::vector<std::int64_t> own(100), out(100);
                  std::span<std::int64_t> mine = own;
                  if (c.shared) mine = {reinterpret_cast<std::int64_t*>(all.memory().data()), 100};
                  for (StepNumber step = 0; step < 3; ++step) {
                    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = ordered_number(rank.rank(), step, 0, i);
                    all.begin_step({});
                    all.submit(plan[0][0], Argument::in(mine), Argument::out(out));
                    all.end_step(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw();
                    for (std::size_t i = 0; i < out.size(); ++i) {
                      ASSERT_EQ(out[i], ordered_number(0, step, 0, i) + ordered_number(1, step, 0, i) +
                                            ordered_number(2, step, 0, i));
                    }
                  }
                  EXPECT_EQ(all.finish(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw(), 0);
                });
  }
}

TEST(OrderedMemory, HasTheSumForAllRanksWhereAllBringTheTensor) {
  const PlannedOrderer::Plan plan = {{{.name = "a", .type = DataType::int64, .count = 100}}};
  for (const std::uint64_t seed : {1, 3, 2}) {
    run_ordered(3, seed, {.fusion_bytes = 128, .memory_bytes = 800}, planned(plan),
                [&](VirtualRank& rank, OrderedAllreduce& all) {
                  const bool shared = seed % 2 == 1;
                  ASSERT_EQ(all.shared_sums().size(), shared ? 800 : 0);
                  std::vector<std::int64_t> mine(100), out(100, -1);
                  const auto* sums = reinterpret_cast<const std::int64_t*>(all.shared_sums().data());
                  EXPECT_THROW(
                      all.destination(plan[0][0], Argument::out(out), reinterpret_cast<std::byte*>(out.data())),
                      UsageError);
                  all.destination(plan[0][0], Argument::out(out), all.shared_sums().data());
                  for (StepNumber step = 0; step < 6; ++step) {
                    const bool rank_1_brings = step % 3 != 2;
                    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = ordered_number(rank.rank(), step, 0, i);
                    if (rank.rank() == static_cast<int>(step % 3)) rank.compute(1s);
                    std::ranges::fill(out, -1);
                    all.begin_step({});
                    if (rank.rank() != 1 || rank_1_brings) {
                      all.submit(plan[0][0], Argument::in(mine), Argument::out(out));
                    }
                    const auto apply = [&](const OrderedStep& done) {
                      ASSERT_EQ(done.reduced.size(), 1u);
                      ASSERT_EQ(done.shared.size(), shared && rank_1_brings ? 1u : 0u);
                      for (std::size_t i = 0; i < out.size(); ++i) {
                        std::int64_t expected = ordered_number(0, step, 0, i) + ordered_number(2, step, 0, i);
                        if (rank_1_brings) expected += ordered_number(1, step, 0, i);
                        ASSERT_EQ(done.shared.empty() ? out[i] : sums[i], expected) << step << ", element " << i;
                        if (!done.shared.empty()) {
                          ASSERT_EQ(out[i], -1) << "a copy";
                        }
                      }
                    };
                    all.end_step(rank, rank.deadline(10s), apply).or_throw();
                  }
                  EXPECT_EQ(all.finish(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw(), 0);
                });
  }
}

TEST_P(Ordered, ARankThatHasDrainedIsHandedTheStepsOfTheOthersInOrder) {
  const int ranks = GetParam();
  const auto tensors = tensors_of(kPlan);
  run_ordered(ranks, 3, kSmallBuffers, planned(), [&](VirtualRank& rank, OrderedAllreduce& all) {
    OrderedMemory memory(tensors);
    memory.destinations(all);
    const auto apply = [&](const OrderedStep& done) {
      const auto some = ranks_that_make(done.step, ranks, 3);
      EXPECT_EQ(done.header->batches, some.size());
      memory.expect_sums(some, done.step);
    };
    const StepNumber own = 3 + static_cast<StepNumber>(rank.rank());
    for (StepNumber step = 0; step < own; ++step) {
      memory.fill(rank.rank(), step);
      all.begin_step({});
      for (std::size_t t = 0; t < tensors.size(); ++t) memory.submit(all, t);
      all.end_step(rank, rank.deadline(10s), apply).or_throw();
    }
    if (rank.rank() % 2 == 0) rank.compute(1s);  // late to drain, and late to take what the others have done
    const int rest = all.finish(rank, rank.deadline(10s), apply).or_throw();
    EXPECT_EQ(rest, ranks - 1 - rank.rank());
    EXPECT_EQ(all.steps(), static_cast<StepNumber>(ranks + 2));
  });
}

TEST_P(Ordered, ARankThatHasDrainedMissesNothingWhereItAppliesSlowly) {
  const int ranks = GetParam();
  const auto tensors = tensors_of(kPlan);
  for (const char* ordering : {"topo", "coordinator", "nbcs"}) {
    for (const std::uint64_t seed : {4, 5}) {  // by messages and where they share memory
      SCOPED_TRACE(text(ordering, ", seed ", seed));
      OrderingOptions options = OrderingOptions::named(ordering);
      options.fusion_bytes = 128;
      run_ordered(ranks, seed, options, {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
        OrderedMemory memory(tensors);
        memory.destinations(all);
        StepNumber handed = 0;
        const auto apply = [&](const OrderedStep& done) {
          EXPECT_EQ(done.step, handed++);
          if (rank.rank() == 0) rank.compute(1s);  // the others come to their end meanwhile
          memory.expect_sums(ranks_that_make(done.step, ranks, 4), done.step);
        };
        for (StepNumber step = 0; step < 4 + static_cast<StepNumber>(rank.rank()); ++step) {
          memory.fill(rank.rank(), step);
          all.begin_step({});
          for (std::size_t t = 0; t < tensors.size(); ++t) memory.submit(all, t);
          all.end_step(rank, rank.deadline(60s), apply).or_throw();
        }
        all.finish(rank, rank.deadline(60s), apply).or_throw();
        EXPECT_EQ(handed, static_cast<StepNumber>(ranks + 3));
      });
    }
  }
}

TEST_P(Ordered, WhatARankDoesNotSubmitIsSummedOverTheOthers) {
  const int ranks = GetParam();
  const auto tensors = tensors_of(kPlan);
  run_ordered(ranks, 4, kSmallBuffers, planned(), [&](VirtualRank& rank, OrderedAllreduce& all) {
    OrderedMemory memory(tensors);
    memory.destinations(all);
    for (StepNumber step = 0; step < 4; ++step) {
      memory.fill(rank.rank(), step);
      all.begin_step({});
      // Tensor t is left out by the ranks r with r + t + step ≡ 0 modulo 3.
      const auto leaves_out = [&](int r, std::size_t t) { return (static_cast<std::size_t>(r) + t + step) % 3 == 0; };
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (!leaves_out(rank.rank(), t)) memory.submit(all, t);
      }
      const auto apply = [&](const OrderedStep& done) {
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          const bool reduced =
              std::ranges::any_of(done.reduced, [&](const TensorDescription* d) { return d->name == tensors[t].name; });
          bool any = false;
          std::int64_t sum = 0;
          for (int r = 0; r < ranks; ++r) {
            any |= !leaves_out(r, t);
            if (!leaves_out(r, t)) sum += ordered_number(r, step, t, 0);
          }
          EXPECT_TRUE(reduced || !any) << tensors[t].name;
          if (!any || tensors[t].count == 0) continue;
          EXPECT_EQ(memory.out[t][0], sum) << tensors[t].name << " in step " << step;
        }
      };
      all.end_step(rank, rank.deadline(10s), apply).or_throw();
    }
    EXPECT_EQ(all.finish(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw(), 0);
  });
}

TEST_P(Ordered, BuffersThatAreVoidComeAgainAndTheirSumsAreSeenByNobody) {
  const int ranks = GetParam();
  const auto tensors = tensors_of(kPlan);
  run_ordered(
      ranks, 5, {},
      [&](const ProcessSet& set) -> std::unique_ptr<Orderer> {
        return std::make_unique<PlannedOrderer>(
            kPlan, set.me() == set.size() - 1 ? std::set<StepNumber>{1, 2} : std::set<StepNumber>{});
      },
      [&](VirtualRank& rank, OrderedAllreduce& all) {
        OrderedMemory memory(tensors);
        for (StepNumber step = 0; step < 4; ++step) {
          memory.fill(rank.rank(), step);
          all.begin_step({});
          for (std::size_t t = 0; t < tensors.size(); ++t) memory.submit(all, t);
          const auto apply = [&](const OrderedStep& done) {
            EXPECT_EQ(done.header->num_fresh(), ranks);
            EXPECT_EQ(done.header->num_stale(), 0);
            EXPECT_EQ(done.reduced.size(), tensors.size());
            memory.expect_sums(ranks_from_0(ranks), step);
          };
          all.end_step(rank, rank.deadline(10s), apply).or_throw();
        }
        EXPECT_EQ(all.statistics().void_buffers, 2 * kPlan.size());
        EXPECT_EQ(all.finish(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw(), 0);
      });
}

TEST_P(Ordered, RecordsWhatBecomesOfEachTensorWhereItIsAskedTo) {
  const int ranks = GetParam();
  const auto tensors = tensors_of(kPlan);
  for (const std::uint64_t seed : {8, 9}) {  // by messages, and on a board
    const auto make = [&](const ProcessSet& set) -> std::unique_ptr<Orderer> {
      const bool changes = set.me() == set.size() - 1;
      return std::make_unique<PlannedOrderer>(kPlan, changes ? std::set<StepNumber>{1} : std::set<StepNumber>{});
    };
    run_ordered(ranks, seed, kSmallBuffers, make, [&](VirtualRank& rank, OrderedAllreduce& all) {
      const bool asks = rank.rank() != 1;
      if (asks) all.record_timeline();
      OrderedMemory memory(tensors);
      std::map<std::pair<StepNumber, std::string>, TimePoint> submitted;
      for (StepNumber step = 0; step < 3; ++step) {
        memory.fill(rank.rank(), step);
        all.begin_step({});
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          rank.compute(Duration(1000) * (1 + rank.rank()));
          submitted[{step, tensors[t].name}] = rank.clock().now();
          memory.submit(all, t);
        }
        all.end_step(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw();
        const TimePoint ended = rank.clock().now();
        const std::vector<TensorTimes> timeline = all.take_timeline();
        EXPECT_EQ(timeline.size(), !asks ? 0 : step == 1 ? 2 * tensors.size() : tensors.size());
        std::map<std::string, TimePoint> until;  // a tensor is waited for, or done, since then
        std::set<std::pair<std::string, bool>> there;
        for (const TensorTimes& t : timeline) {
          EXPECT_TRUE(there.emplace(t.name, t.is_void).second) << t.name << " twice in step " << step;
          EXPECT_EQ(t.step, step);
          EXPECT_EQ(t.set, 0);
          EXPECT_EQ(t.comes_again, step == 1 && !t.is_void);
          const TimePoint since = t.comes_again ? until.at(t.name) : submitted.at({step, t.name});
          EXPECT_EQ(t.submitted, since) << t.name << " in step " << step;
          EXPECT_LE(t.submitted, t.taken);
          EXPECT_LE(t.taken, t.begun);
          EXPECT_LE(t.begun, t.fused);
          EXPECT_LE(t.fused, t.done);
          EXPECT_LE(t.done, ended);
          until[t.name] = t.done;
          const std::uint64_t place = t.name == "alone" ? 1 : t.name == "c" || t.name == "empty" ? 2 : 0;
          const std::uint64_t before = step == 0 ? 0 : step == 1 ? (t.is_void ? 3 : 6) : 9;
          EXPECT_EQ(t.buffer, before + place) << t.name << " in step " << step;
        }
      }
      EXPECT_EQ(all.finish(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw(), 0);
      EXPECT_TRUE(all.take_timeline().empty());
    });
  }
}

TEST_P(Ordered, AnApplicationWaitsForATensorInTheMiddleOfAStep) {
  const int ranks = GetParam();
  const auto tensors = tensors_of(kPlan);
  PlannedOrderer* orderer = nullptr;
  run_ordered(
      ranks, 6, {},
      [&](const ProcessSet& set) {
        auto made = std::make_unique<PlannedOrderer>(kPlan);
        if (set.me() == 0) orderer = made.get();
        return made;
      },
      [&](VirtualRank& rank, OrderedAllreduce& all) {
        OrderedMemory memory(tensors);
        memory.fill(rank.rank(), 0);
        all.begin_step({});
        rank.compute(Duration(1000) * (1 + rank.rank()));
        memory.submit(all, 0);
        if (ranks > 1 && rank.rank() == 0) {
          // Nothing can come: b is not there.
          const auto early = all.wait(rank, "a", rank.deadline(1ms));
          ASSERT_FALSE(early.ok());
          EXPECT_EQ(early.error().code, Errc::timeout);
          EXPECT_THAT(early.error().message, HasSubstr("step 0"));
        }
        memory.submit(all, 1);
        all.wait(rank, "a", rank.deadline(10s)).or_throw();
        std::int64_t sum = 0;
        for (int r = 0; r < ranks; ++r) sum += ordered_number(r, 0, 0, 2);
        EXPECT_EQ(memory.out[0][2], sum);
        all.wait(rank, "a", rank.deadline(10s)).or_throw();
        for (const std::size_t t : {2, 3, 4}) memory.submit(all, t);
        all.end_step(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw();
        memory.expect_sums(ranks_from_0(ranks), 0);
        if (rank.rank() == 0) {
          EXPECT_EQ(orderer->blocked_times(), orderer->released_times());
          EXPECT_GE(orderer->blocked_times(), ranks > 1 ? 1 : 0);
        }
        EXPECT_EQ(all.finish(rank, rank.deadline(10s), [](const OrderedStep&) {}).or_throw(), 0);
      });
}

}  // namespace
}  // namespace stretto
