#include "stretto/observe/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "stretto/base/random.h"

namespace stretto {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kTolerance = 1e-6;

struct Part {
  int rank;
  std::uint64_t base;
  float computed = 0, waited = 0, late = 0;
};

/// The header of `round` with one batch of 4 samples from each of `parts`.
RoundHeader header_of(int ranks, std::uint64_t round, const std::vector<Part>& parts, const std::vector<int>& arrived) {
  RoundHeader header(ranks);
  for (const Part& part : parts) {
    RoundHeader one(ranks);
    (part.base == round ? one.fresh : one.stale).insert(part.rank);
    one.batches = 1;
    one.samples = 4;
    one.oldest_base = one.sum_of_bases = part.base;
    one.times = {{static_cast<std::uint16_t>(part.rank), 0, part.computed, part.waited, part.late}};
    header.merge(one);
  }
  for (const int rank : arrived) header.arrived.insert(rank);
  return header;
}

// A rank that comes to the job goes on with the account of another one.
TEST(Ledger, GoesOnWithTheAccountOfAnotherRank) {
  Ledger whole(70);
  Random random(1, 2);
  std::uint64_t round = 0;
  const auto book = [&](std::initializer_list<Ledger*> ledgers) {
    std::vector<Part> parts;
    std::vector<int> arrived;
    for (int rank = 0; rank < 70; ++rank) {
      const float waited = static_cast<float>(random.uniform());
      if (random.chance(0.7)) parts.push_back({rank, round - (random.chance(0.3) && round > 2 ? 2 : 0), 1.f, waited});
      if (random.chance(0.9)) arrived.push_back(rank);
    }
    const RoundHeader header = header_of(70, round, parts, arrived);
    for (Ledger* const ledger : ledgers) ledger->add(round, 1 + round % 2, header, static_cast<double>(round));
    ++round;
  };
  while (round < 10) book({&whole});
  Ledger late(70);
  late.take_over(whole.numbers()).or_throw();
  while (round < 20) book({&whole, &late});
  whole.close();
  late.close();
  EXPECT_EQ(late.rounds(), 20u);
  EXPECT_EQ(late.batches(), whole.batches());
  EXPECT_EQ(late.staleness_histogram(), whole.staleness_histogram());
  EXPECT_EQ(late.total().arrived, whole.total().arrived);
  EXPECT_NEAR(late.total().waited, whole.total().waited, kTolerance);
  EXPECT_EQ(nlohmann::json::parse(late.to_json())["policies"], nlohmann::json::parse(whole.to_json())["policies"]);

  std::vector<std::uint64_t> cut = whole.numbers();
  cut.pop_back();
  EXPECT_FALSE(late.take_over(cut).ok());
  EXPECT_FALSE(late.take_over({}).ok());
  EXPECT_EQ(late.rounds(), 20u) << "nothing has changed";
}

// As after a point where all ranks meet: bases are numbers of rounds since then.
TEST(Ledger, NumbersOfRoundsMayBeginAgain) {
  Ledger ledger(2);
  ledger.add(0, 1, header_of(2, 0, {{0, 0, 1.f}, {1, 0, 1.f}}, {0, 1}), 1);
  ledger.add(1, 1, header_of(2, 1, {{0, 1, 1.f}, {1, 0, 1.f}}, {0, 1}), 2);
  ledger.close();
  ledger.add(0, 1, header_of(2, 0, {{0, 0, 1.f, 0.5f}, {1, 0, 1.f}}, {0}), 3);
  ledger.add(1, 1, header_of(2, 1, {{0, 1, 1.f, 0.25f}}, {}), 4);
  ledger.close();
  EXPECT_EQ(ledger.rounds(), 4u);
  EXPECT_EQ(ledger.staleness_max(), 1u);
  EXPECT_EQ(ledger.of(1).lost, 0.25) << "the wait before the new beginning belongs to no round after it";
}

TEST(Ledger, CountsWhatHeadersSay) {
  Ledger ledger(3);
  ledger.add(0, 1, header_of(3, 0, {{0, 0, 1.f, 0.f, 0.f}, {1, 0, 2.f, 0.f, 0.f}}, {0, 1}), 0.5);
  ledger.add(1, 2, header_of(3, 1, {{0, 1, 1.f, 0.5f, 0.f}, {2, 0, 3.f, 0.f, 0.25f}}, {0, 2}), 1.5);
  RoundHeader last(3);
  for (int rank = 0; rank < 3; ++rank) last.drained.insert(rank);
  ledger.add(2, 1, last, 2.5);

  EXPECT_EQ(ledger.rounds(), 3u);
  EXPECT_EQ(ledger.empty_rounds(), 1u);
  EXPECT_EQ(ledger.batches(), 4u);
  EXPECT_EQ(ledger.samples(), 16u);
  EXPECT_EQ(ledger.seconds(), 2.5);
  EXPECT_EQ(ledger.of(0).fresh, 2u);
  EXPECT_EQ(ledger.of(0).null, 0u) << "a drained rank brings nothing, and nobody expects it to";
  EXPECT_EQ(ledger.of(1).null, 1u);
  EXPECT_EQ(ledger.of(2).stale, 1u);
  EXPECT_EQ(ledger.of(2).null, 1u);
  EXPECT_EQ(ledger.of(2).arrived, 1u);
  EXPECT_EQ(ledger.of(2).late, 0.25);
  const RankAccount sum = ledger.total();
  EXPECT_EQ(sum.arrived, 4u);
  EXPECT_EQ(sum.fresh, 3u);
  EXPECT_EQ(sum.stale, 1u);
  EXPECT_EQ(sum.null, 2u);
  EXPECT_EQ(sum.computed, 7.0);
  EXPECT_EQ(sum.waited, 0.5);
}

TEST(Ledger, StalenessIsCountedByBatch) {
  Ledger ledger(4);
  EXPECT_EQ(ledger.staleness_mean(), 0);
  EXPECT_EQ(ledger.staleness_quantile(0.99), 0u);
  ledger.add(7, 1, header_of(4, 7, {{0, 7}, {1, 7}, {2, 6}, {3, 4}}, {0, 1}), 1);
  EXPECT_DOUBLE_EQ(ledger.staleness_mean(), 1.0);
  EXPECT_EQ(ledger.staleness_max(), 3u);
  EXPECT_THAT(ledger.staleness_histogram(), ElementsAre(2, 1, 0, 1));
  EXPECT_EQ(ledger.staleness_quantile(0.5), 0u);
  EXPECT_EQ(ledger.staleness_quantile(0.75), 1u);
  EXPECT_EQ(ledger.staleness_quantile(0.99), 3u);
}

TEST(Ledger, TheHistogramHasEveryBatchAndTheRightSum) {
  Random random(1);
  Ledger ledger(8);
  for (std::uint64_t round = 10; round < 500; ++round) {
    std::vector<Part> parts;
    for (int rank = 0; rank < 8; ++rank) {
      if (random.chance(0.7)) parts.push_back({rank, round - random.below(5)});
    }
    ledger.add(round, 1, header_of(8, round, parts, {}), 1);
  }
  std::uint64_t batches = 0, sum = 0;
  const auto& histogram = ledger.staleness_histogram();
  for (std::size_t staleness = 0; staleness < histogram.size(); ++staleness) {
    batches += histogram[staleness];
    sum += staleness * histogram[staleness];
  }
  EXPECT_EQ(batches, ledger.batches());
  EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(batches), ledger.staleness_mean(), kTolerance);
  EXPECT_EQ(ledger.staleness_max(), 4u);
}

/// Rounds of policy full: rank r computes `times[r]` each step, and all wait for the slowest, then `operation`.
Ledger synchronous(const std::vector<float>& times, int steps, float operation,
                   const std::vector<std::string>& hosts = {}) {
  const int ranks = static_cast<int>(times.size());
  const float slowest = *std::max_element(times.begin(), times.end());
  Ledger ledger(ranks, hosts);
  std::vector<int> all(times.size());
  std::iota(all.begin(), all.end(), 0);
  for (int step = 0; step < steps; ++step) {
    std::vector<Part> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      const float time = times[static_cast<std::size_t>(rank)];
      parts.push_back({rank, static_cast<std::uint64_t>(step), time, step == 0 ? 0 : slowest - time + operation, 0});
    }
    ledger.add(static_cast<std::uint64_t>(step), 1, header_of(ranks, static_cast<std::uint64_t>(step), parts, all),
               step);
  }
  ledger.close();
  return ledger;
}

TEST(Ledger, TimeIsLostToTheSlowestRank) {
  // Nine waits, each of 2 s by three ranks, for rank 3; no rank is to blame for the 0.5 s of the operation.
  const auto lost = synchronous({1, 1, 1, 3}, 10, 0.5f).lost_seconds();
  EXPECT_THAT(lost, ElementsAre(DoubleNear(0, kTolerance), DoubleNear(0, kTolerance), DoubleNear(0, kTolerance),
                                DoubleNear(54, kTolerance)));
}

TEST(Ledger, TheBlameIsShared) {
  // Rank 0 waits 1 s for both others, then ranks 0 and 1 wait 1 s for rank 2.
  const auto lost = synchronous({1, 2, 3}, 2, 0).lost_seconds();
  EXPECT_THAT(lost, ElementsAre(DoubleNear(0, kTolerance), DoubleNear(0.5, kTolerance), DoubleNear(2.5, kTolerance)));
}

TEST(Ledger, AllWaitingIsSomebodysFaultOrTheOperations) {
  Random random(2);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<float> times(1 + random.below(9));
    for (auto& time : times) time = static_cast<float>(random.uniform());
    const auto ledger = synchronous(times, 5, 0);
    const auto total = ledger.total();
    EXPECT_NEAR(total.lost, total.waited, 1e-4);
  }
}

TEST(Ledger, RanksThatDoNotArriveAreBlamedForTheWaitsOfAQuorum) {
  Ledger ledger(3);
  // Ranks 0 and 1 start round 0 without rank 2; rank 0 had waited 2 s, rank 1 had come last.
  ledger.add(0, 1, header_of(3, 0, {{0, 0}, {1, 0}}, {0, 1}), 1);
  ledger.add(1, 1, header_of(3, 1, {{0, 1, 1, 2, 0}}, {0}), 2);
  EXPECT_THAT(ledger.lost_seconds(), ElementsAre(0, 0, 0)) << "rank 1 has not said yet how long it waited";
  ledger.add(2, 1, header_of(3, 2, {{0, 2}, {1, 1, 1, 0, 0.5f}}, {0, 1}), 3);
  EXPECT_THAT(ledger.lost_seconds(),
              ElementsAre(DoubleNear(0, kTolerance), DoubleNear(1, kTolerance), DoubleNear(1, kTolerance)));
}

TEST(Ledger, ADrainedRankIsNotBlamed) {
  Ledger ledger(2);
  auto header = header_of(2, 0, {{0, 0}}, {0});
  header.drained.insert(1);
  ledger.add(0, 1, header, 1);
  ledger.add(1, 1, header_of(2, 1, {{0, 1, 1, 2, 0}}, {0}), 1);
  ledger.close();
  EXPECT_THAT(ledger.lost_seconds(), ElementsAre(0, 0));
}

TEST(Ledger, RememberedRoundsAreBounded) {
  Ledger ledger(2);
  ledger.add(0, 1, header_of(2, 0, {{0, 0}, {1, 0}}, {0, 1}), 0);
  for (std::uint64_t round = 1; round < 5000; ++round) {
    ledger.add(round, 1, header_of(2, round, {{0, round, 1, 1, 0}}, {0}), 0);
  }
  ledger.close();
  // Rank 0 waited 4,999 s in all; the first of them rank 1 had arrived, too, and never said when.
  EXPECT_NEAR(ledger.of(1).lost, 4998, 1);
}

TEST(Ledger, SaysThatNoneWasLost) {
  auto ledger = synchronous({1, 2}, 3, 0);
  EXPECT_EQ(ledger.lost_deposits(), 0);
  ledger.set_deposits(6, 0);
  EXPECT_EQ(ledger.lost_deposits(), 0);
  EXPECT_THAT(ledger.to_text(), HasSubstr("deposits: 6 made, 6 applied, 0 pending, 0 lost\n"));
  ledger.set_deposits(8, 1);
  EXPECT_EQ(ledger.lost_deposits(), 1);
  EXPECT_THAT(ledger.to_text(), HasSubstr("8 made, 6 applied, 1 pending, 1 lost\n"));
  ledger.set_deposits(5, 0);
  EXPECT_EQ(ledger.lost_deposits(), -1);
  EXPECT_THAT(ledger.to_text(), HasSubstr("1 applied that nobody made\n"));
}

TEST(Ledger, HistogramsOfBucketsAddUpToTheBatches) {
  for (const unsigned buckets : {1u, 2u, 3u, 7u, 10u}) {
    for (const unsigned batches : {1u, 9u, 26u, 39u}) {
      auto ledger = synchronous({1}, static_cast<int>(batches), 0);
      OwnCounts counts{.buckets = buckets, .taken = buckets * batches};
      for (std::uint64_t i = 0; i < counts.taken; ++i) counts.ages.add(i * i % 13 % (buckets + 3));
      ledger.set_deposits(batches, 0, counts);
      const auto histogram = ledger.staleness_histogram();
      EXPECT_EQ(std::accumulate(histogram.begin(), histogram.end(), std::uint64_t{0}), batches)
          << buckets << " buckets";
    }
  }
}

TEST(Ledger, TakesWhatAlgorithmsCountByThemselves) {
  auto ledger = synchronous({1, 2}, 3, 0);
  const auto of = [](std::initializer_list<std::uint64_t> each) {
    Ages ages;
    for (const std::uint64_t age : each) ages.add(age);
    return ages;
  };
  OwnCounts counts{.buckets = 2, .taken = 4, .ages = of({3, 3, 1, 0})};
  counts.add({.buckets = 2, .taken = 6, .dropped = 2, .ages = of({5, 0, 0, 0, 0, 0})});
  counts.add({});
  counts = OwnCounts::of(counts.numbers());
  ledger.set_deposits(6, 0, counts);
  EXPECT_EQ(ledger.batches(), 6u);
  EXPECT_EQ(ledger.applied(), 5u);
  EXPECT_EQ(ledger.dropped(), 1u);
  EXPECT_EQ(ledger.lost_deposits(), 0);
  EXPECT_EQ(ledger.staleness_mean(), 1.2);
  EXPECT_EQ(ledger.staleness_max(), 5u);
  EXPECT_THAT(ledger.staleness_histogram(), ElementsAre(3, 1, 0, 1)) << "10 buckets, two to a batch, are 5 batches";
  EXPECT_THAT(ledger.to_text(), HasSubstr("staleness 1.20 on average, all at most 5\n"));
  EXPECT_THAT(ledger.to_text(), HasSubstr("deposits: 6 made, 5 applied, 1 dropped, 0 pending, 0 lost\n"));
  const auto json = nlohmann::json::parse(ledger.to_json());
  EXPECT_EQ(json["deposits"]["dropped"], 1);
  EXPECT_EQ(json["staleness"]["max"], 5);
  EXPECT_EQ(json["staleness"]["histogram"].size(), 4u);
  EXPECT_FALSE(json["staleness"].contains("p99")) << "which is of rounds";
  counts.taken -= 1;  // one bucket of one gradient
  ledger.set_deposits(6, 0, counts);
  EXPECT_EQ(ledger.lost_deposits(), 1);
}

TEST(Ledger, SaysWhatReplicasHavePassedOver) {
  auto ledger = synchronous({1, 1, 1, 1}, 3, 0);
  OwnCounts counts{.passed = 7};
  counts.add({.passed = 3});
  ledger.set_deposits(12, 0, OwnCounts::of(counts.numbers()));
  EXPECT_EQ(ledger.passed_over(), 2.5) << "of four replicas";
  EXPECT_EQ(ledger.lost_deposits(), 0) << "the others have applied them";
  EXPECT_THAT(ledger.to_text(),
              HasSubstr("12 made, 12 applied, 2.5 of them passed over by a replica on average, 0 pending, 0 lost\n"));
  EXPECT_EQ(nlohmann::json::parse(ledger.to_json())["deposits"]["passed_over"], 2.5);
}

TEST(Ledger, SaysTheMovementOfHowManyDepositsIsKept) {
  auto ledger = synchronous({1, 1}, 3, 0);
  ledger.set_deposits(6, 0);
  EXPECT_FALSE(ledger.kept().has_value()) << "nobody counts it";
  OwnCounts counts{.own_steps = 4, .kept_millionths = 2'250'000};
  counts.add({.own_steps = 2, .kept_millionths = 2'250'000});
  ledger.set_deposits(6, 0, OwnCounts::of(counts.numbers()));
  EXPECT_EQ(ledger.kept(), 4.5);
  EXPECT_THAT(ledger.to_text(),
              HasSubstr("deposits: 6 made, 6 applied, 0 pending, 0 lost, the movement of 4.5 kept\n"));
  EXPECT_EQ(nlohmann::json::parse(ledger.to_json())["deposits"]["kept"], 4.5);
}

TEST(Ledger, PrintsATable) {
  auto ledger = synchronous({1, 3}, 3, 0);
  ledger.set_deposits(6, 0);
  EXPECT_EQ(ledger.to_text([](std::uint64_t) { return "full"; }),
            "  rank  arrived    fresh    stale     null   computed     waited       late   cost all\n"
            "     0        3        3        0        0    3.000 s    4.000 s    0.000 s    0.000 s\n"
            "     1        3        3        0        0    9.000 s    0.000 s    0.000 s    4.000 s\n"
            "   all        6        6        0        0     12.0 s    4.000 s    0.000 s    4.000 s\n"
            "3 rounds: 3 full; 6 batches, 24 samples; staleness 0.00 on average, 99 % at most 0, all at most 0\n"
            "the others waited 4.000 s because of rank 1, 100 % of all waiting for somebody\n"
            "deposits: 6 made, 6 applied, 0 pending, 0 lost\n");
  EXPECT_THAT(Ledger(1).to_text(), Not(HasSubstr("all  ")));
}

TEST(Ledger, NamesHostsWhereThereAreSeveral) {
  EXPECT_EQ(synchronous({1, 2, 3}, 2, 0, {"h1", "host2", "host2"}).to_text(),
            "      rank  arrived    fresh    stale     null   computed     waited       late   cost all\n"
            "    0 (h1)        2        2        0        0    2.000 s    2.000 s    0.000 s    0.000 s\n"
            " 1 (host2)        2        2        0        0    4.000 s    1.000 s    0.000 s    0.500 s\n"
            " 2 (host2)        2        2        0        0    6.000 s    0.000 s    0.000 s    2.500 s\n"
            "       all        6        6        0        0     12.0 s    3.000 s    0.000 s    3.000 s\n"
            "2 rounds; 6 batches, 24 samples; staleness 0.00 on average, 99 % at most 0, all at most 0\n"
            "the others waited 2.500 s because of rank 2 (host2), 83 % of all waiting for somebody\n"
            "of the hosts host2 has cost the others most: 3.000 s, 100 % of all waiting for somebody\n");
}

TEST(Ledger, PrintsTheRanksOfALargeJobThatHaveCostMost) {
  std::vector<float> computed(20, 1);
  computed[3] = computed[19] = 5;
  const std::string table = synchronous(computed, 3, 0).to_text();
  for (const char* shown : {"     3  ", "    19  ", "   ...  4 more, which have cost the others less\n", "   all  "}) {
    EXPECT_THAT(table, HasSubstr(shown));
  }
  EXPECT_THAT(table, Not(HasSubstr("    18  ")));
}

TEST(Ledger, WritesJson) {
  auto ledger = synchronous({1, 3}, 3, 0);
  auto json = nlohmann::json::parse(ledger.to_json());
  EXPECT_FALSE(json.contains("deposits"));
  ledger.set_deposits(6, 0);
  json = nlohmann::json::parse(ledger.to_json([](std::uint64_t) { return "full"; }));
  EXPECT_EQ(json["rounds"], 3);
  EXPECT_EQ(json["rounds_by_policy"]["full"], 3);
  EXPECT_EQ(json["ranks"].size(), 2u);
  EXPECT_NEAR(json["ranks"][1]["lost_seconds"].get<double>(), 4, kTolerance);
  EXPECT_EQ(json["total"]["fresh"], 6);
  EXPECT_EQ(json["staleness"]["p99"], 0);
  EXPECT_EQ(json["deposits"]["lost"], 0);
}

/// Headers of large jobs count ranks and do not name them.
TEST(Ledger, RoundsWithoutNamesCountInTheTotalAlone) {
  RoundHeader header(3);
  header.arrived.insert(0);
  for (int rank : {0, 1}) header.fresh.insert(rank);
  header.stale.insert(2);
  header.batches = 4;
  header.oldest_base = 5;
  header.sum_of_bases = 3 * 6 + 5;
  header.times = {{0, 0, 1, 2, 0}, {1, 0, 1, 0, 0}, {2, 0, 1, 0, 0}};
  Ledger named(3), ledger(3);
  named.add(6, 0, header, 1);
  header.forget_names();
  ledger.add(6, 0, header, 1);
  EXPECT_EQ(ledger.rounds_without_names(), 1u);
  EXPECT_EQ(named.rounds_without_names(), 0u);
  EXPECT_EQ(ledger.total().arrived, 1u);
  EXPECT_EQ(ledger.total().fresh, 2u);
  EXPECT_EQ(ledger.total().stale, 1u);
  EXPECT_EQ(ledger.of(0).fresh + ledger.of(1).fresh + ledger.of(2).stale, 0u);
  EXPECT_EQ(ledger.batches(), named.batches());
  EXPECT_EQ(ledger.staleness_mean(), named.staleness_mean());
  EXPECT_EQ(ledger.staleness_max(), named.staleness_max());
  EXPECT_EQ(ledger.staleness_histogram(), named.staleness_histogram());
  EXPECT_EQ(ledger.total().computed, 0);
  EXPECT_THAT(ledger.to_text(), HasSubstr("1 rounds count ranks without naming them"));
  EXPECT_THAT(named.to_text(), Not(HasSubstr("without naming them")));
  EXPECT_EQ(nlohmann::json::parse(ledger.to_json())["rounds_without_names"], 1);
}

TEST(Ledger, NeedsARank) {
  EXPECT_THROW(Ledger(0), UsageError);
}

}  // namespace
}  // namespace stretto
