#include "stretto/dispenser/dispenser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// All ranks of a job, or of its continuation, in one process.
class Ranks {
 public:
  Ranks(const PlanOptions& options, Sharing sharing, DispenserPosition start)
      : plans_(static_cast<std::size_t>(options.ranks), BatchPlan(options)) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      dispensers_.emplace_back(plans_[static_cast<std::size_t>(rank)], sharing, rank, counter_, start);
    }
  }
  Ranks(const PlanOptions& options, Sharing sharing) : Ranks(options, sharing, DispenserPosition(options.ranks)) {}

  Dispenser& operator[](std::uint64_t rank) { return dispensers_[rank]; }
  std::vector<RankLog> logs() const {
    std::vector<RankLog> out;
    for (const auto& dispenser : dispensers_) out.push_back(dispenser.log());
    return out;
  }

 private:
  std::atomic<std::uint64_t> word_{0};
  MemoryCounter counter_{word_};
  std::vector<BatchPlan> plans_;
  std::deque<Dispenser> dispensers_;
};

using Used = std::map<std::uint64_t, std::vector<std::uint32_t>>;  // batch → samples

/// Lets ranks take and deposit batches in random turns, `turns` of them or until all are at the end.
void run(Ranks& ranks, int size, Random& random, std::uint64_t turns, Used& used) {
  std::vector<std::optional<std::pair<std::uint64_t, std::vector<std::uint32_t>>>> held(static_cast<std::size_t>(size));
  std::vector<bool> done(static_cast<std::size_t>(size));
  while (turns-- > 0 && std::count(done.begin(), done.end(), true) < size) {
    // Low ranks have more turns than high ones.
    const auto rank = random.below(random.below(static_cast<std::uint64_t>(size)) + 1);
    if (held[rank]) {
      ranks[rank].deposited();
      ASSERT_TRUE(used.emplace(held[rank]->first, held[rank]->second).second) << "batch " << held[rank]->first;
      held[rank].reset();
    } else if (const auto batch = ranks[rank].next()) {
      held[rank].emplace(batch->sequence, std::vector(batch->samples.begin(), batch->samples.end()));
    } else {
      done[rank] = true;
    }
  }
}

PlanOptions drawn_options(Random& random) {
  PlanOptions options{.ranks = static_cast<int>(random.between(1, 9))};
  options.samples = static_cast<std::uint64_t>(options.ranks) + random.below(100);
  options.batch = static_cast<int>(random.log_uniform(1, 16));
  options.epochs = random.log_uniform(1, 8);
  options.seed = random.bits();
  options.bucketed = random.chance(0.5);
  for (std::uint64_t i = 0; i < options.samples; ++i) {
    options.lengths.push_back(static_cast<std::uint32_t>(random.between(1, 30)));
  }
  return options;
}

void expect_whole_epochs(const Used& used, const PlanOptions& options) {
  BatchPlan plan(options);
  ASSERT_EQ(used.size(), plan.num_batches());
  std::vector<std::uint64_t> times(options.samples);
  for (const auto& [sequence, samples] : used) {
    for (const auto sample : samples) ++times[sample];
  }
  for (const auto n : times) ASSERT_EQ(n, options.epochs);
}

TEST(Dispenser, EverySampleOnceAnEpochOverAllRanksAndInterleavings) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const auto options = drawn_options(random);
    for (const Sharing sharing : {Sharing::shared, Sharing::partitioned, Sharing::ring}) {
      Ranks ranks(options, sharing);
      Used used;
      run(ranks, options.ranks, random, ~std::uint64_t{0}, used);
      expect_whole_epochs(used, options);
    }
  }
}

TEST(Dispenser, NothingIsLostOrUsedTwiceWhereverAJobIsInterrupted) {
  Random random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const auto options = drawn_options(random);
    for (const Sharing sharing : {Sharing::shared, Sharing::partitioned, Sharing::ring}) {
      DispenserPosition position(options.ranks);
      Used used;
      for (int part = 0; part < 4; ++part) {
        Ranks ranks(options, sharing, position);
        run(ranks, options.ranks, random, part == 3 ? ~std::uint64_t{0} : random.below(60), used);
        // What a checkpoint would hold.
        std::vector<RankLog> logs;
        for (const auto& log : ranks.logs()) logs.push_back(rank_log_from_json(to_json(log)).or_throw());
        position = position_from_json(to_json(position_after(position, logs).or_throw())).or_throw();
        ASSERT_EQ(used.size(), position.next - position.returned.size());
        ASSERT_EQ(std::accumulate(position.steps.begin(), position.steps.end(), std::uint64_t{0}), used.size());
      }
      expect_whole_epochs(used, options);
      ASSERT_TRUE(position.returned.empty());
    }
  }
}

TEST(Dispenser, AContinuedJobHandsOutTheSameBatches) {
  const PlanOptions options{.samples = 100, .batch = 7, .ranks = 3, .epochs = 4, .seed = 8};
  for (const Sharing sharing : {Sharing::partitioned, Sharing::ring}) {
    Ranks whole(options, sharing);
    Ranks first(options, sharing);
    for (int step = 0; step < 6; ++step) {
      for (std::uint64_t rank = 0; rank < 3; ++rank) {
        ASSERT_TRUE(whole[rank].next() && first[rank].next());
        first[rank].deposited();
      }
    }
    Ranks second(options, sharing, position_after(DispenserPosition(3), first.logs()).or_throw());
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      while (const auto expected = whole[rank].next()) {
        const auto batch = second[rank].next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->sequence, expected->sequence);
        EXPECT_EQ(batch->step, expected->step);
        EXPECT_TRUE(std::equal(batch->samples.begin(), batch->samples.end(), expected->samples.begin(),
                               expected->samples.end()));
      }
      EXPECT_FALSE(second[rank].next());
    }
  }
}

/// The samples that each rank gets, in order, with batches along a ring.
std::vector<std::vector<std::uint32_t>> rows_of(const PlanOptions& options) {
  Ranks ranks(options, Sharing::ring);
  std::vector<std::vector<std::uint32_t>> rows(static_cast<std::size_t>(options.ranks));
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    while (const auto batch = ranks[rank].next()) {
      rows[rank].insert(rows[rank].end(), batch->samples.begin(), batch->samples.end());
    }
  }
  return rows;
}

std::vector<std::uint32_t> sorted_part(const std::vector<std::uint32_t>& row, std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint32_t> part(row.begin() + static_cast<std::ptrdiff_t>(from),
                                  row.begin() + static_cast<std::ptrdiff_t>(to));
  std::ranges::sort(part);
  return part;
}

TEST(Dispenser, AlongARingEachRankSeesEverySampleOnceInAsManyPassesAsRanks) {
  Random random(3);
  for (int trial = 0; trial < 100; ++trial) {
    auto options = drawn_options(random);
    const auto ranks = static_cast<std::uint64_t>(options.ranks);
    options.epochs = 2 * ranks;
    options.batch = std::min(options.batch, static_cast<int>(options.samples));
    const auto rows = rows_of(options);
    std::vector<std::uint32_t> all(options.samples);
    std::iota(all.begin(), all.end(), 0u);
    // What does not fill a batch of every rank at the end of the job is put together.
    const std::uint64_t own =
        2 * options.samples / static_cast<std::uint64_t>(options.batch) * static_cast<std::uint64_t>(options.batch);
    for (const auto& row : rows) {
      ASSERT_GE(row.size(), own);
      EXPECT_EQ(sorted_part(row, 0, options.samples), all);
      if (own == 2 * options.samples) {
        EXPECT_EQ(sorted_part(row, options.samples, own), all);
      }
    }
  }
}

TEST(Dispenser, AlongARingTheSamplesOfARankMoveToTheNext) {
  for (const bool bucketed : {false, true}) {
    // Shares of 24 samples, in whole batches.
    PlanOptions options{.samples = 96, .batch = 4, .ranks = 4, .epochs = 8, .seed = 6, .bucketed = bucketed};
    for (std::uint32_t i = 0; i < 96; ++i) options.lengths.push_back(1 + i % 7);
    const auto rows = rows_of(options);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      for (std::uint64_t pass = 1; pass < 8; ++pass) {
        const auto now = sorted_part(rows[rank], 24 * pass, 24 * (pass + 1));
        const auto before = sorted_part(rows[(rank + 3) % 4], 24 * (pass - 1), 24 * pass);
        EXPECT_EQ(now == before, pass != 4) << "rank " << rank << ", pass " << pass << ": shared out anew at 4";
      }
    }
  }
}

TEST(Dispenser, AlongARingBucketedBatchesAreOfSimilarLength) {
  PlanOptions options{.samples = 120, .batch = 5, .ranks = 3, .epochs = 6, .seed = 2, .bucketed = true};
  for (std::uint32_t i = 0; i < 120; ++i) options.lengths.push_back(1 + i % 40);
  Ranks ranks(options, Sharing::ring);
  std::uint64_t units = 0;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    while (const auto batch = ranks[rank].next()) units += batch->units;
  }
  std::uint64_t least = 0;
  for (const auto length : options.lengths) least += 6 * length;
  EXPECT_LT(units, least * 12 / 10) << "with batches of any length it is about 1.7 times the least";
}

TEST(Dispenser, PartitionedGivesUnequalNumbersWhereTheyDoNotDivide) {
  // 40 epochs of 270 samples in batches of 4: 2,700 batches over 8 ranks are 337.5 each.
  const PlanOptions options{.samples = 270, .batch = 4, .ranks = 8, .epochs = 40, .seed = 1};
  Ranks ranks(options, Sharing::partitioned);
  for (std::uint64_t rank = 0; rank < 8; ++rank) {
    std::uint64_t count = 0;
    while (const auto batch = ranks[rank].next()) {
      EXPECT_EQ(batch->sequence, count * 8 + rank);
      EXPECT_EQ(batch->step, count);
      ++count;
    }
    EXPECT_EQ(count, rank < 4 ? 338u : 337u);
  }
}

TEST(Dispenser, SharedLetsAFastRankTakeMore) {
  const PlanOptions options{.samples = 10, .batch = 1, .ranks = 2, .steps = 5};
  Ranks ranks(options, Sharing::shared);
  EXPECT_EQ(ranks[1].next()->sequence, 0u);
  for (std::uint64_t i = 1; i < 10; ++i) EXPECT_EQ(ranks[0].next()->sequence, i);
  EXPECT_FALSE(ranks[0].next());
  EXPECT_FALSE(ranks[1].next());
  EXPECT_FALSE(ranks[1].next());
  EXPECT_EQ(ranks[1].step(), 1u);
}

TEST(Dispenser, SampledHandsOutAsManyAndTheSameAfterAnInterruption) {
  const PlanOptions options{.samples = 100, .batch = 8, .ranks = 2, .steps = 10, .seed = 4};
  const auto samples = [](const std::optional<BatchRef>& batch) {
    return std::vector<std::uint32_t>(batch->samples.begin(), batch->samples.end());
  };
  Ranks whole(options, Sharing::sampled);
  std::vector<std::vector<std::uint32_t>> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(samples(whole[0].next()));
  EXPECT_FALSE(whole[0].next());
  EXPECT_FALSE(whole[1].next());

  Ranks first(options, Sharing::sampled);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(samples(first[0].next()), expected[i]);
    if (i < 4) first[0].deposited();
  }
  Ranks second(options, Sharing::sampled, position_after(DispenserPosition(2), first.logs()).or_throw());
  for (std::size_t i = 4; i < 20; ++i) EXPECT_EQ(samples(second[0].next()), expected[i]);
  EXPECT_FALSE(second[0].next());
}

TEST(Dispenser, OfItsPartARankGetsTheSameAfterAnInterruption) {
  PlanOptions options{.samples = 60, .batch = 8, .ranks = 2, .steps = 10, .seed = 4, .labels_a_rank = 3};
  for (std::uint32_t sample = 0; sample < 60; ++sample) options.labels.push_back(sample % 4);
  const auto samples = [](const std::optional<BatchRef>& batch) {
    return std::vector<std::uint32_t>(batch->samples.begin(), batch->samples.end());
  };
  Ranks whole(options, Sharing::labels);
  std::vector<std::vector<std::uint32_t>> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(samples(whole[1].next()));
  EXPECT_FALSE(whole[1].next()) << "as many as when shared, all by one rank";
  EXPECT_FALSE(whole[0].next());

  Ranks first(options, Sharing::labels);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(samples(first[1].next()), expected[i]);
    if (i < 4) first[1].deposited();
  }
  Ranks second(options, Sharing::labels, position_after(DispenserPosition(2), first.logs()).or_throw());
  const auto others = samples(second[0].next());
  for (std::size_t i = 4; i < 19; ++i) EXPECT_EQ(samples(second[1].next()), expected[i]);
  EXPECT_FALSE(second[1].next());
  for (const auto& batch : expected) {
    for (const auto sample : batch) EXPECT_EQ(std::ranges::count(others, sample), 0) << "sample of the other rank";
  }
}

TEST(Dispenser, ThreadsShareThePool) {
  const PlanOptions options{.samples = 97, .batch = 3, .ranks = 4, .epochs = 20, .seed = 5};
  Ranks ranks(options, Sharing::shared);
  std::vector<std::vector<std::uint32_t>> got(4);
  std::vector<std::thread> threads;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      while (const auto batch = ranks[rank].next()) {
        got[rank].insert(got[rank].end(), batch->samples.begin(), batch->samples.end());
        ranks[rank].deposited();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<int> times(97);
  for (const auto& samples : got) {
    for (const auto sample : samples) ++times[sample];
  }
  EXPECT_EQ(times, std::vector<int>(97, 20));
}

TEST(Dispenser, NamesAreReadBack) {
  for (const Sharing sharing :
       {Sharing::shared, Sharing::partitioned, Sharing::ring, Sharing::sampled, Sharing::labels}) {
    EXPECT_EQ(parse_sharing(name_of(sharing)), sharing);
  }
  EXPECT_EQ(parse_sharing("labels:12"), Sharing::labels);
  EXPECT_EQ(labels_a_rank("labels:12"), 12);
  EXPECT_EQ(labels_a_rank("labels"), 3);
  EXPECT_EQ(labels_a_rank("shared"), 0);
  for (const char* wrong : {"pooled", "labels:", "labels:0", "labels:-1", "labels:2x", "labels2"}) {
    try {
      (void)parse_sharing(wrong);
      ADD_FAILURE() << wrong;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(),
                text("data '", wrong, "': expected shared, partitioned, ring, sampled or labels:K, as in labels:3"));
    }
  }
}

TEST(Dispenser, PartsNeedLabels) {
  BatchPlan plan({.samples = 10, .batch = 2, .ranks = 2, .epochs = 1});
  std::atomic<std::uint64_t> word{0};
  MemoryCounter counter(word);
  EXPECT_THROW(Dispenser(plan, Sharing::labels, 0, counter), UsageError);
}

TEST(Dispenser, APositionOfAnotherJobIsRefused) {
  BatchPlan plan({.samples = 10, .batch = 2, .ranks = 2, .epochs = 1});
  std::atomic<std::uint64_t> word{0};
  MemoryCounter counter(word);
  const auto refused = [&](const DispenserPosition& start) {
    try {
      Dispenser dispenser(plan, Sharing::shared, 0, counter, start);
    } catch (const UsageError&) {
      return true;
    }
    return false;
  };
  DispenserPosition start(2);
  start.next = 5;
  EXPECT_FALSE(refused(start));
  start.next = 6;
  EXPECT_TRUE(refused(start));
  EXPECT_TRUE(refused(DispenserPosition(3)));
}

TEST(DispenserPosition, WhatIsInNoLogGoesBack) {
  const std::vector<RankLog> logs = {{.handed_out = {0, 3, 6}, .deposited = 3}, {.handed_out = {1, 4}, .deposited = 1}};
  const auto after = position_after(DispenserPosition(2), logs).or_throw();
  EXPECT_EQ(after.next, 7u);
  EXPECT_THAT(after.returned, ElementsAre(2, 4, 5));
  EXPECT_THAT(after.steps, ElementsAre(3, 1));
}

TEST(DispenserPosition, LogsThatDoNotFitAreRefused) {
  const auto said = [](const DispenserPosition& before, const std::vector<RankLog>& logs) {
    const auto after = position_after(before, logs);
    return after ? "no error" : after.error().message;
  };
  EXPECT_THAT(said(DispenserPosition(2), {{}}), HasSubstr("1 logs for 2 ranks"));
  EXPECT_THAT(said(DispenserPosition(1), {{.handed_out = {1}, .deposited = 2}}),
              HasSubstr("deposited 2 batches and got 1"));
  EXPECT_THAT(said(DispenserPosition(2), {{{7}, 1}, {{7}, 1}}), HasSubstr("batch 7 was used twice"));
  DispenserPosition before(1);
  before.next = 4;
  before.returned = {2};
  EXPECT_THAT(said(before, {{{3}, 1}}), HasSubstr("batch 3 was used before"));
  EXPECT_EQ(said(before, {{{2, 4}, 2}}), "no error");
}

TEST(DispenserPosition, BrokenTextIsRefused) {
  for (const char* wrong : {"", "[]", "{}", "{\"next\":1}", R"({"next":-1,"returned":[],"steps":[0]})",
                            R"({"next":3,"returned":[2,1],"steps":[0]})", R"({"next":3,"returned":[3],"steps":[0]})",
                            R"({"next":3,"returned":[1.5],"steps":[0]})", R"({"next":3,"returned":[1],"steps":[0])"}) {
    EXPECT_FALSE(position_from_json(wrong)) << wrong;
    EXPECT_FALSE(rank_log_from_json(wrong)) << wrong;
  }
  EXPECT_FALSE(rank_log_from_json(R"({"handed_out":[1],"deposited":2})"));
}

}  // namespace
}  // namespace stretto
