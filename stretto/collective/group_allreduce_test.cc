// The group allreduce over real shared memory: threads as ranks (so that the thread sanitizer sees them all), with real
// helper threads, and integer models with exact sums; and misuse.

#include "stretto/collective/group_allreduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include "stretto/base/random.h"
#include "stretto/collective/testing/process_job.h"
#include "stretto/collective/testing/thread_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::uint64_t kLength = 300;

/// A model of rank r has so many in element r, and nothing in the others; the second bucket counts the ranks.
void write(Contribution& model, int rank, std::uint64_t version) {
  auto first = model.as<std::int64_t>(0);
  std::ranges::fill(first, 0);
  first[static_cast<std::size_t>(rank)] = static_cast<std::int64_t>(version);
  std::ranges::fill(model.as<std::int64_t>(1), 1);
}

/// Returns what is wrong with the sum; empty if nothing is.
std::string fault_of(const GroupResult& result, const Groups& groups, int rank, std::uint64_t own) {
  std::vector<int> members = groups.members(rank, result.round);
  if (result.full) {
    members.clear();
    for (int peer = 0; peer < groups.ranks(); ++peer) members.push_back(peer);
  }
  if (result.members != std::ssize(members)) return text("round ", result.round, " has ", result.members, " members");
  const auto* versions = reinterpret_cast<const std::int64_t*>(result.sum[0].data());
  for (int peer = 0; peer < groups.ranks(); ++peer) {
    const bool member = std::ranges::count(members, peer) == 1;
    if (member != (versions[peer] > 0)) return text("round ", result.round, ": rank ", peer);
  }
  const auto mine = static_cast<std::uint64_t>(versions[rank]);
  if (mine > own || result.fresh != (mine == own)) return text("round ", result.round, ": own version ", mine);
  const auto* counts = reinterpret_cast<const std::int64_t*>(result.sum[1].data());
  for (std::uint64_t i = 0; i < kLength; ++i) {
    if (counts[i] != result.members) return "torn";
  }
  return "";
}

struct LiveGroups {
  int ranks = 4;
  GroupOptions options;
  std::uint64_t steps = 150;
  std::uint64_t again = 0;  // each model is published up to so many times more
};

/// Returns what is wrong; empty if nothing is.
std::string run_rank(Engine& engine, const LiveGroups& live) {
  const int rank = engine.rank();
  GroupAllreduce groups(engine, {{DataType::int64, 40}, {DataType::int64, kLength}}, live.options);
  const Groups who(engine.size(), groups.options().group_size, groups.options().order);
  EngineDriver driver(engine, {.spin = 0ns});
  const TimePoint deadline = driver.deadline(100s);
  std::string fault;
  std::uint64_t version = 0, batches = 0, all_batches = 0, used = 0;
  const auto publish = [&](std::uint64_t steps) {
    Contribution& model = groups.acquire();
    write(model, rank, ++version);
    groups.publish(model, {.batches = steps});
  };
  const auto apply = [&](const GroupResult& result) {
    if (fault.empty()) fault = fault_of(result, who, rank, version);
    if (result.round < used) fault = "a round used again";
    used = result.round + 1;
    if (result.full) {
      all_batches += result.header->batches;
      batches = 0;
    }
    publish(batches);
  };
  Random random(7, static_cast<std::uint64_t>(rank));
  const std::uint64_t steps = live.steps + 10 * static_cast<std::uint64_t>(rank % 3);
  publish(0);
  for (std::uint64_t step = 0; step < steps && fault.empty(); ++step) {
    if (random.chance(0.05)) std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
    publish(++batches);
    for (std::uint64_t more = random.below(live.again + 1); more > 0; --more) publish(batches);
    const Round iteration = groups.next();
    if (const auto result = groups.exchange(driver, deadline, apply); !result) fault = result.error().message;
    if (live.options.late_sum == LateSum::own && used != iteration + 1 && fault.empty()) fault = "another's sum";
  }
  groups.drain();
  publish(batches);
  if (const auto end = groups.finish(driver, deadline, apply); !end && fault.empty()) fault = end.error().message;
  std::uint64_t wanted = 0;
  for (int peer = 0; peer < engine.size(); ++peer) wanted += live.steps + 10 * static_cast<std::uint64_t>(peer % 3);
  if (fault.empty() && all_batches != wanted) fault = text(all_batches, " of ", wanted, " batches");
  return fault;
}

void expect_exact_as_given(const LiveGroups& live) {
  std::vector<std::string> faults(static_cast<std::size_t>(live.ranks));
  run_thread_job(live.ranks, [&](Engine& engine) {
    std::string& fault = faults[static_cast<std::size_t>(engine.rank())];
    fault = run_rank(engine, live);
    return fault.empty();
  });
  EXPECT_THAT(faults, testing::Each("")) << live.ranks << " ranks";
}

/// Over a board (0: all ranks have a seat at it), by messages (1), and over boards of two ranks (2).
class GroupAllreduceLive : public testing::TestWithParam<int> {
 protected:
  void expect_exact(LiveGroups live) const {
    live.options.seats = std::min(GetParam(), live.ranks);
    expect_exact_as_given(live);
  }
  /// So many that boards of two ranks are several.
  int few() const { return GetParam() == 2 ? 3 : 2; }
};

TEST_P(GroupAllreduceLive, SumsTheNewestModelsOfEachGroupOnce) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) expect_exact({.ranks = ranks});
}

TEST_P(GroupAllreduceLive, WithAQuorumWithRanksThatJumpAndWithTheOwnModelKept) {
  for (const int ranks : {3, 4}) {
    expect_exact({.ranks = ranks, .options = {.full_every = 4, .quorum = 2}});
    expect_exact({.ranks = ranks, .options = {.full_every = 7, .late = LateRank::jumps, .keep_own = true}});
    expect_exact({.ranks = ranks, .options = {.group_size = 2, .order = GroupOrder::fixed, .full_every = 1}});
  }
}

/// By messages, though the ranks share memory.
TEST(GroupAllreduce, WithTheSumOfTheOwnIteration) {
  for (const Round full_every : {1, 2, 5}) {
    expect_exact_as_given({.options = {.full_every = full_every, .late_sum = LateSum::own}});
    expect_exact_as_given(
        {.ranks = 5, .options = {.full_every = full_every, .keep_own = true, .late_sum = LateSum::own}});
    expect_exact_as_given({.options = {.full_every = full_every, .late = LateRank::jumps, .late_sum = LateSum::own}});
  }
}

TEST_P(GroupAllreduceLive, NamesARankThatIsKilledWhereverItStands) {
  for (const int killed_after : {1, 4, 9}) {
    const auto status = run_process_job(3, [killed_after](Engine& engine) {
      GroupAllreduce groups(engine, {{DataType::int64, 5000}},
                            {.group_size = 2, .full_every = 4, .seats = GetParam(), .piece_bytes = 64});
      EngineDriver driver(engine, {.spin = 0ns});
      const auto apply = [&](const GroupResult& result) {
        if (result.full) groups.publish(groups.acquire(), {});
      };
      groups.publish(groups.acquire(), {});
      for (int step = 0;; ++step) {
        if (engine.rank() == 1 && step == killed_after) kill(getpid(), SIGKILL);
        groups.publish(groups.acquire(), {});
        const auto result = groups.exchange(driver, driver.deadline(100s), apply);
        if (!result) return result.error().code == Errc::lost_peer && result.error().rank == 1 ? 0 : 2;
      }
    });
    EXPECT_EQ(status, (std::vector<int>{0, 128 + SIGKILL, 0})) << killed_after;
  }
}

/// Many pieces a sum, and models that are written all the time, most of which no sum has read.
TEST_P(GroupAllreduceLive, RanksThatPublishInALoop) {
  for (const bool keep_own : {false, true}) {
    const GroupOptions options{.group_size = 3, .full_every = 9, .keep_own = keep_own, .piece_bytes = 64};
    expect_exact({.ranks = 6, .options = options, .steps = 400, .again = 6});
  }
}

/// The arithmetic of float64.
constexpr ModelMath kDoubles{
    .mean =
        [](DataType, std::span<std::byte> model, std::span<const std::byte> sum, double members) {
          auto* out = reinterpret_cast<double*>(model.data());
          const auto* in = reinterpret_cast<const double*>(sum.data());
          for (std::size_t i = 0; i < model.size() / sizeof(double); ++i) out[i] = in[i] / members;
        },
    .put_on =
        [](DataType, std::span<std::byte> model, std::span<const std::byte> stands, std::span<const std::byte> base) {
          auto* out = reinterpret_cast<double*>(model.data());
          const auto* on = reinterpret_cast<const double*>(stands.data());
          const auto* from = reinterpret_cast<const double*>(base.data());
          for (std::size_t i = 0; i < model.size() / sizeof(double); ++i) out[i] = on[i] + (out[i] - from[i]);
        }};

/// Each step of rank r adds 1 to element r of its model. Returns its model at the end, on which all ranks agree.
std::vector<double> run_moving_rank(Engine& engine, GroupOptions options, std::uint64_t steps) {
  options.moves = &kDoubles;
  const auto rank = static_cast<std::size_t>(engine.rank());
  GroupAllreduce groups(engine, {{DataType::float64, 40}}, options);
  EngineDriver driver(engine, {.spin = 0ns});
  const TimePoint deadline = driver.deadline(100s);
  std::vector<double> model(40);
  const auto publish = [&] {
    Contribution& next = groups.acquire();
    std::ranges::copy(model, next.as<double>(0).begin());
    groups.publish(next, {});
  };
  const auto apply = [&](const GroupResult& result) {
    std::memcpy(model.data(), result.sum[0].data(), result.sum[0].size());
  };
  Random random(11, rank);
  publish();
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (random.chance(rank == 1 ? 0.5 : 0.02)) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
    }
    model[rank] += 1;
    publish();
    if (!groups.exchange(driver, deadline, apply)) return {};
  }
  groups.drain();
  if (!groups.finish(driver, deadline, apply)) return {};
  return model;
}

TEST_P(GroupAllreduceLive, ModelsThatMoveLoseNoStep) {
  const GroupOptions kinds[] = {{.full_every = 10, .late = LateRank::jumps},
                                {.full_every = 50, .quorum = 1, .late = LateRank::jumps},
                                {.group_size = 2, .full_every = 4, .quorum = 2, .piece_bytes = 64},
                                {.group_size = 2, .full_every = 1}};
  for (const int ranks : {1, 3, 4, 7}) {
    for (GroupOptions options : kinds) {
      options.seats = std::min(GetParam(), ranks);
      options.quorum = std::min(options.quorum, ranks);
      if (ranks == 1) options.group_size = 0;
      std::vector<std::vector<double>> models(static_cast<std::size_t>(ranks));
      run_thread_job(ranks, [&](Engine& engine) {
        auto& model = models[static_cast<std::size_t>(engine.rank())];
        model = run_moving_rank(engine, options, 100);
        return !model.empty();
      });
      for (const std::vector<double>& model : models) {
        ASSERT_EQ(model, models[0]) << ranks << " ranks";
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_NEAR(model[static_cast<std::size_t>(rank)] * ranks, 100, 1e-9)
              << "steps of rank " << rank << " of " << ranks;
        }
      }
    }
  }
}

/// The line with which a job of one rank is refused.
template <class Misuse>
std::string refused(GroupOptions options, Misuse misuse) {
  std::string line;
  run_thread_job(1, [&](Engine& engine) {
    try {
      GroupAllreduce groups(engine, {{DataType::int64, 4}}, options);
      EngineDriver driver(engine, {.spin = 0ns});
      misuse(groups, driver);
    } catch (const UsageError& error) {
      line = error.what();
    }
    return true;
  });
  return line;
}

TEST(GroupAllreduce, RefusesMisuseInALine) {
  const auto nothing = [](const GroupResult&) {};
  const auto make = [](GroupAllreduce&, Driver&) {};
  EXPECT_THAT(refused({.group_size = 2}, make), HasSubstr("2"));
  EXPECT_THAT(refused({.full_every = 0}, make), HasSubstr("a full round every 0 rounds"));
  EXPECT_THAT(refused({.quorum = 2}, make), HasSubstr("a quorum of 2 of 1 ranks"));
  EXPECT_THAT(refused({.quorum = -1}, make), HasSubstr("a quorum of -1"));
  EXPECT_THAT(refused({.seats = 2}, make), HasSubstr("seats 2 with 1 ranks: use 1 to 1, or 0 for all of them"));
  EXPECT_THAT(refused({.piece_bytes = 100}, make), HasSubstr("piece_bytes 100: use a multiple of 64"));
  EXPECT_THAT(refused({.keep_own = true, .moves = &kDoubles}, make),
              HasSubstr("models that move with their group's mean, and keep_own"));
  EXPECT_THAT(refused({.moves = &kDoubles},
                      [&](GroupAllreduce& groups, Driver&) {
                        groups.publish(groups.acquire(), {});
                        groups.publish(groups.acquire(), {});
                        (void)groups.acquire();
                      }),
              HasSubstr("acquire() before"));
  EXPECT_THAT(refused({}, [&](GroupAllreduce& groups,
                              Driver& driver) { (void)groups.exchange(driver, driver.deadline(1s), nothing); }),
              HasSubstr("exchange() before the first publish()"));
  EXPECT_THAT(refused({}, [&](GroupAllreduce& groups,
                              Driver& driver) { (void)groups.finish(driver, driver.deadline(1s), nothing); }),
              HasSubstr("finish() before drain()"));
  EXPECT_THAT(refused({},
                      [&](GroupAllreduce& groups, Driver&) {
                        (void)groups.acquire();
                        (void)groups.acquire();
                      }),
              HasSubstr("acquire() before"));
  EXPECT_THAT(refused({.full_every = 1},
                      [&](GroupAllreduce& groups, Driver& driver) {
                        groups.publish(groups.acquire(), {});
                        (void)groups.exchange(driver, driver.deadline(1s), nothing);
                      }),
              HasSubstr("no publish() in the apply function of round 0, which is full"));
}

TEST(GroupAllreduce, RefusesSumsOfTheOwnIterationOnBoards) {
  run_thread_job(3, [](Engine& engine) {
    std::string line;
    try {
      GroupAllreduce groups(engine, {{DataType::int64, 4}}, {.late_sum = LateSum::own, .seats = 2});
    } catch (const UsageError& error) {
      line = error.what();
    }
    EXPECT_THAT(line, HasSubstr("seats 2, and sums of the own iteration, which are kept by messages alone"));
    return true;
  });
}

/// Boards {0, 1, 2} and {3, 4}. Each group is at one board, so that between the boards nothing goes but word that a
/// round has started, and the full rounds' sums.
TEST(GroupAllreduce, GroupsAtOneBoardSendNoModels) {
  run_thread_job(5, [](Engine& engine) {
    constexpr std::uint64_t kElements = 100'000;
    constexpr Round kRounds = 8;
    GroupAllreduce groups(engine, {{DataType::int64, kElements}},
                          {.group_size = 3, .order = GroupOrder::fixed, .full_every = kRounds, .seats = 3});
    EngineDriver driver(engine, {.spin = 0ns});
    const int members = engine.rank() < 3 ? 3 : 2;
    const auto publish = [&](std::int64_t value) {
      Contribution& model = groups.acquire();
      std::ranges::fill(model.as<std::int64_t>(0), value);
      groups.publish(model, {.batches = 1});
    };
    std::uint64_t sent_in_groups = 0;
    publish(engine.rank());
    for (Round round = 0; round < kRounds; ++round) {
      publish(engine.rank());
      const auto taken = groups.exchange(driver, driver.deadline(100s), [&](const GroupResult& result) {
        const auto* sum = reinterpret_cast<const std::int64_t*>(result.sum[0].data());
        const int want = result.full ? 10 : members == 3 ? 3 : 7;
        EXPECT_EQ(sum[0], want);
        EXPECT_EQ(sum[kElements - 1], want);
        EXPECT_EQ(result.members, result.full ? 5 : members);
        if (result.full) publish(engine.rank());
      });
      EXPECT_TRUE(taken);
      if (round + 2 == kRounds) sent_in_groups = engine.traffic().body_bytes;
    }
    EXPECT_EQ(sent_in_groups, 0u);
    const bool leads = engine.rank() == 0 || engine.rank() == 3;
    groups.drain();
    publish(0);
    EXPECT_TRUE(groups.finish(driver, driver.deadline(100s), [&](const GroupResult&) { publish(0); }));
    EXPECT_EQ(engine.traffic().body_bytes > 0, leads);
    return true;
  });
}

TEST_P(GroupAllreduceLive, NamesTheRanksThatAreMissingAndAborts) {
  run_thread_job(few(), [](Engine& engine) {
    GroupAllreduce groups(engine, {{DataType::int64, 4}}, {.full_every = 1, .seats = GetParam()});
    EngineDriver driver(engine, {.spin = 0ns});
    const auto apply = [](const GroupResult&) {};
    groups.publish(groups.acquire(), {});
    if (engine.rank() > 0) {
      const auto failed = [&] { return groups.failure().has_value(); };
      EXPECT_TRUE(driver.wait(failed, driver.deadline(100s)));
      EXPECT_THAT(groups.failure()->message, HasSubstr("enough"));
      return true;
    }
    // A rank that does not answer within the time for it is silent, until it does.
    for (bool answered = false; !answered;) {
      const auto late = groups.exchange(driver, driver.deadline(50ms), apply);
      EXPECT_FALSE(late);
      if (late) break;
      EXPECT_THAT(late.error().message, HasSubstr("round 0 (full) waits for rank 1 ("));
      answered = late.error().message.find("waits for rank 1 (computing)") != std::string::npos;
    }
    groups.abort(driver, {Errc::aborted, "enough", 0});
    EXPECT_EQ(groups.exchange(driver, driver.deadline(1s), apply).error().code, Errc::aborted);
    return true;
  });
}

TEST_P(GroupAllreduceLive, RanksThatDifferAreBothNamed) {
  run_thread_job(few(), [](Engine& engine) {
    GroupAllreduce groups(engine, {{DataType::int64, 4}},
                          {.full_every = engine.rank() == 0 ? Round{2} : Round{3}, .seats = GetParam()});
    EngineDriver driver(engine, {.spin = 0ns});
    groups.publish(groups.acquire(), {});
    std::optional<Error> error;
    for (int i = 0; i < 4 && !error; ++i) {
      groups.publish(groups.acquire(), {});
      const auto result = groups.exchange(driver, driver.deadline(20s),
                                          [&](const GroupResult&) { groups.publish(groups.acquire(), {}); });
      if (!result) error = result.error();
    }
    EXPECT_TRUE(error && error->code != Errc::timeout) << (error ? error->message : "none");
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(Seats, GroupAllreduceLive, testing::Values(0, 1, 2));

}  // namespace
}  // namespace stretto
