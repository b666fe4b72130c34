#include "stretto/collective/plain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/collective/allreduce/board_allreduce.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/schedules/round_schedules.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRounds = 3;

/// What rank `rank` brings in a round: small whole numbers, so that sums are exact in every type.
template <class T>
std::vector<T> numbers(int rank, std::uint64_t count, int round) {
  std::vector<T> out(count);
  const auto start = static_cast<std::uint64_t>(rank) * 104729 + static_cast<std::uint64_t>(round) * 31;
  for (std::uint64_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(static_cast<std::int64_t>((start + i * 7919) % 2001) - 1000);
  }
  return out;
}

template <class T>
std::vector<T> reduced(int ranks, std::uint64_t count, int round, ReduceOp op) {
  std::vector<T> out = numbers<T>(0, count, round);
  for (int rank = 1; rank < ranks; ++rank) {
    const auto other = numbers<T>(rank, count, round);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (op == ReduceOp::sum) out[i] += other[i];
      if (op == ReduceOp::min) out[i] = std::min(out[i], other[i]);
      if (op == ReduceOp::max) out[i] = std::max(out[i], other[i]);
      if constexpr (std::is_integral_v<T>) {
        if (op == ReduceOp::bit_and) out[i] &= other[i];
      }
    }
  }
  return out;
}

class Plain : public ::testing::TestWithParam<std::tuple<int, ProgressBy>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  DriverOptions driver_options() const { return {.progress_by = std::get<1>(GetParam()), .spin = Duration{0}}; }

  template <class T>
  void check_allreduce() {
    using Through = AllreduceOptions::Through;
    for (const auto through : {Through::messages, Through::gather}) check_allreduce<T>(through);
    if (ranks() <= 8) check_allreduce<T>(Through::exchange);
  }

  template <class T>
  void check_allreduce(AllreduceOptions::Through through) {
    SCOPED_TRACE(testing::Message() << "way " << static_cast<int>(through));
    struct Case {
      std::uint64_t count;
      ReduceOp op;
      std::vector<std::vector<T>> expected;  // per round
    };
    std::vector<Case> cases;
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{5}, kLargeBucketBytes / sizeof(T) + 7}) {
      for (const auto op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::bit_and}) {
        if (!reduces(kDataTypeOf<T>, op)) continue;
        cases.push_back({count, op, {}});
        for (int round = 0; round < kRounds; ++round) {
          cases.back().expected.push_back(reduced<T>(ranks(), count, round, op));
        }
      }
    }
    run_thread_job(ranks(), [&](Engine& engine) {
      std::vector<std::unique_ptr<Allreduce>> all;
      const AllreduceOptions options{.through = through};
      for (const Case& c : cases) {
        all.push_back(std::make_unique<Allreduce>(engine, kDataTypeOf<T>, c.count, c.op, options));
      }
      EngineDriver driver(engine, driver_options());
      for (int round = 0; round < kRounds; ++round) {
        for (std::size_t i = 0; i < cases.size(); ++i) {
          const auto mine = numbers<T>(engine.rank(), cases[i].count, round);
          std::vector<T> sum(cases[i].count, T{77});
          all[i]->run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
          EXPECT_EQ(sum, cases[i].expected[static_cast<std::size_t>(round)]) << sum.size() << name_of(cases[i].op);
          EXPECT_EQ(mine, numbers<T>(engine.rank(), cases[i].count, round)) << "the contribution is only read";
          auto both = mine;
          all[i]->run(driver, driver.deadline(kWatchdog), both, both).or_throw();
          EXPECT_EQ(both, sum) << "in the contribution's place";
        }
      }
      return true;
    });
  }
};

TEST_P(Plain, AllreduceOfFloat32) {
  check_allreduce<float>();
}
TEST_P(Plain, AllreduceOfFloat64) {
  check_allreduce<double>();
}
TEST_P(Plain, AllreduceOfInt32) {
  check_allreduce<std::int32_t>();
}
TEST_P(Plain, AllreduceOfInt64) {
  check_allreduce<std::int64_t>();
}

TEST_P(Plain, BroadcastFromEveryRoot) {
  run_thread_job(ranks(), [&](Engine& engine) {
    std::vector<std::unique_ptr<Broadcast>> all;
    for (int root = 0; root < engine.size(); ++root) {
      all.push_back(std::make_unique<Broadcast>(engine, DataType::float64, 1000, root));
    }
    EngineDriver driver(engine, driver_options());
    for (int round = 0; round < kRounds; ++round) {
      for (int root = 0; root < engine.size(); ++root) {
        const auto expected = numbers<double>(root, 1000, round);
        std::vector<double> data(1000, 0.5);
        if (root == engine.rank()) data = expected;
        all[static_cast<std::size_t>(root)]->run(driver, driver.deadline(kWatchdog), data).or_throw();
        EXPECT_EQ(data, expected) << "root " << root << ", round " << round;
      }
    }
    return true;
  });
}

TEST_P(Plain, AllgatherKeepsTheOrderOfRanks) {
  run_thread_job(ranks(), [&](Engine& engine) {
    Allgather gather(engine, DataType::int32, 17);
    EngineDriver driver(engine, driver_options());
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::int32_t> all(17 * static_cast<std::size_t>(engine.size())), expected;
      gather.run(driver, driver.deadline(kWatchdog), numbers<std::int32_t>(engine.rank(), 17, round), all).or_throw();
      for (int rank = 0; rank < engine.size(); ++rank) {
        const auto theirs = numbers<std::int32_t>(rank, 17, round);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      EXPECT_EQ(all, expected);
    }
    return true;
  });
}

TEST_P(Plain, BarrierReturnsWhenEveryRankHasCalled) {
  std::atomic<int> came{0};
  run_thread_job(ranks(), [&](Engine& engine) {
    Barrier barrier(engine);
    EngineDriver driver(engine, driver_options());
    for (int round = 0; round < 5 * kRounds; ++round) {
      ++came;
      barrier.run(driver, driver.deadline(kWatchdog)).or_throw();
      EXPECT_GE(came.load(), (round + 1) * engine.size());
    }
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(All, Plain,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 5, 7, 8, 16, 33),
                                            ::testing::Values(ProgressBy::thread, ProgressBy::application)),
                         [](const auto& info) {
                           return text(std::get<0>(info.param),
                                       std::get<1>(info.param) == ProgressBy::thread ? "_thread" : "_application");
                         });

/// Runs one collective on every rank of four and returns what each was told. A rank waits for all before it leaves.
template <class Run>
std::vector<Error> errors_of(Run run) {
  std::vector<Error> errors(4, Error{Errc::io, "no error", -1});
  run_thread_job(4, [&](Engine& engine) {
    const Result<void> result = run(engine);
    if (!result.ok()) errors[static_cast<std::size_t>(engine.rank())] = result.error();
    return true;
  });
  return errors;
}

Result<void> run_allreduce(Engine& engine, DataType type, std::uint64_t count, ReduceOp op) {
  Allreduce sum(engine, type, count, op, {.through = AllreduceOptions::Through::gather});
  EngineDriver driver(engine);
  if (type == DataType::float32) {
    std::vector<float> mine(count), out(count);
    return sum.run(driver, driver.deadline(kWatchdog), mine, out);
  }
  std::vector<std::int32_t> mine(count), out(count);
  return sum.run(driver, driver.deadline(kWatchdog), mine, out);
}

TEST(PlainMisuse, AnotherSizeTypeOperationRootOrCollectiveFailsEverywhere) {
  const auto expect = [](const std::vector<Error>& errors, const char* theirs, const char* ours) {
    for (const Error& error : errors) {
      EXPECT_EQ(error.code, Errc::bad_input) << error.message;
      // Whoever comes to an unexpected description first says so: rank 2, or another rank about it.
      EXPECT_THAT(error.message,
                  AllOf(HasSubstr(text("rank 2 runs \"", theirs, '"')), HasSubstr(text(" runs \"", ours, '"'))));
    }
  };
  const auto odd_one = [](Engine& engine) { return engine.rank() == 2; };
  expect(errors_of([&](Engine& engine) {
           return run_allreduce(engine, DataType::float32, odd_one(engine) ? 6 : 5, ReduceOp::sum);
         }),
         "allreduce of 6 float32 by sum through gather by 8192 B",
         "allreduce of 5 float32 by sum through gather by 8192 B");
  expect(errors_of([&](Engine& engine) {
           return run_allreduce(engine, odd_one(engine) ? DataType::int32 : DataType::float32, 5, ReduceOp::sum);
         }),
         "allreduce of 5 int32 by sum through gather by 8192 B",
         "allreduce of 5 float32 by sum through gather by 8192 B");
  expect(errors_of([&](Engine& engine) {
           return run_allreduce(engine, DataType::int32, 5, odd_one(engine) ? ReduceOp::max : ReduceOp::min);
         }),
         "allreduce of 5 int32 by max through gather by 8192 B",
         "allreduce of 5 int32 by min through gather by 8192 B");
  expect(errors_of([&](Engine& engine) {
           Broadcast broadcast(engine, DataType::int64, 2, odd_one(engine) ? 2 : 0);
           EngineDriver driver(engine);
           std::vector<std::int64_t> data(2);
           return broadcast.run(driver, driver.deadline(kWatchdog), data);
         }),
         "broadcast of 2 int64 from rank 2", "broadcast of 2 int64 from rank 0");
  expect(errors_of([&](Engine& engine) {
           if (odd_one(engine)) return run_allreduce(engine, DataType::float32, 1, ReduceOp::sum);
           Barrier barrier(engine);
           EngineDriver driver(engine);
           return barrier.run(driver, driver.deadline(kWatchdog));
         }),
         "allreduce of 1 float32 by sum through gather by 8192 B", "barrier");
}

TEST(PlainMisuse, RanksThatHaveChosenDifferentlyAreTold) {
  // As ranks do that have read different tuning files.
  for (const auto way : {AllreduceChoice::Way::gather, AllreduceChoice::Way::exchange}) {
    const std::vector<Error> errors = errors_of([&](Engine& engine) -> Result<void> {
      const AllreduceChoice odd{way, 4096, ""};
      const AllreduceChoice even{AllreduceChoice::Way::gather, 8192, ""};
      BoardAllreduce sum(engine, {DataType::float32, 5}, ReduceOp::sum, engine.rank() == 2 ? odd : even);
      EngineDriver driver(engine);
      std::vector<float> mine(5), out(5);
      return sum.run(driver, driver.deadline(kWatchdog), Argument::in(mine), Argument::out(out));
    });
    for (const Error& error : errors) {
      EXPECT_EQ(error.code, Errc::bad_input) << error.message;
      EXPECT_THAT(error.message, AllOf(HasSubstr(text("through ", name_of(way), " by 4096 B")),
                                       HasSubstr("through gather by 8192 B")));
    }
  }
}

TEST(Plain, CollectivesAreMadeAndDroppedWhileAThreadDrivesTheEngine) {
  run_thread_job(3, [](Engine& engine) {
    EngineDriver driver(engine);
    Barrier barrier(engine);
    for (int i = 0; i < 50; ++i) {
      Allreduce allreduce(engine, DataType::int32, 3, ReduceOp::sum);
      Barrier another(engine);
      const std::vector<std::int32_t> mine(3, engine.rank() + i);
      std::vector<std::int32_t> sum(3);
      allreduce.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
      EXPECT_EQ(sum, std::vector<std::int32_t>(3, 3 + 3 * i));
      another.run(driver, driver.deadline(kWatchdog)).or_throw();
    }
    barrier.run(driver, driver.deadline(kWatchdog)).or_throw();
    return true;
  });
}

TEST(PlainMisuse, ReductionsThatATypeDoesNotHaveAreRefused) {
  run_thread_job(2, [](Engine& engine) {
    using Through = AllreduceOptions::Through;
    for (const auto through : {Through::messages, Through::exchange, Through::gather}) {
      EXPECT_THROW(Allreduce(engine, DataType::float32, 3, ReduceOp::bit_and, {.through = through}), UsageError);
    }
    EXPECT_THROW(PartialAllreduce(engine, {{DataType::float64, 3}}, {.op = ReduceOp::bit_and}), UsageError);
    return true;
  });
}

TEST(PlainMisuse, MoreElementsThanBytesCanCountAreRefused) {
  run_thread_job(2, [](Engine& engine) {
    constexpr std::uint64_t kMany = std::uint64_t{1} << 62;  // times 4 is 0
    EXPECT_THROW(Allreduce(engine, DataType::float32, kMany, ReduceOp::sum), UsageError);
    EXPECT_THROW(Allreduce(engine, DataType::float32, kMany, ReduceOp::sum, {.seats = 1}), UsageError);
    EXPECT_THROW(Broadcast(engine, DataType::float32, kMany), UsageError);
    EXPECT_THROW(Allgather(engine, DataType::int64, kMaxArrayBytes / 8), UsageError) << "of two ranks";
    EXPECT_THROW(PartialAllreduce(engine, {{DataType::float32, kMany}}), UsageError);
    EXPECT_THROW(PartialAllreduce(engine, {{DataType::int64, kMaxArrayBytes / 8}, {DataType::int64, 1}}), UsageError);
    EXPECT_THROW(PartialAllreduce(engine, {{DataType::int64, 1}}, {.max_lag = 1 << 30}), UsageError);
    return true;
  });
}

TEST(PlainMisuse, AnArgumentThatDoesNotFitIsNamed) {
  run_thread_job(1, [](Engine& engine) {
    Allreduce sum(engine, DataType::float32, 5, ReduceOp::sum);
    EngineDriver driver(engine);
    std::vector<float> five(5), four(4);
    std::vector<double> doubles(5);
    const auto message_of = [&](auto& mine, auto& out) -> std::string {
      try {
        (void)sum.run(driver, driver.deadline(kWatchdog), mine, out);
      } catch (const UsageError& error) {
        return error.what();
      }
      return "no error";
    };
    EXPECT_THAT(message_of(four, five), HasSubstr("\"mine\" was given 4 float32; expected 5 float32"));
    EXPECT_THAT(message_of(five, doubles), HasSubstr("\"sum\" was given 5 float64; expected 5 float32"));
    EXPECT_EQ(message_of(five, five), "no error") << "and it goes on afterwards";
    return true;
  });
}

TEST(PlainFailures, ALostRankFailsTheRoundOfTheOthers) {
  for (int lost = 0; lost < 4; ++lost) {
    std::atomic<int> through{0};
    run_thread_job(4, [&](Engine& engine) {
      Barrier barrier(engine);
      EngineDriver driver(engine);
      barrier.run(driver, driver.deadline(kWatchdog)).or_throw();
      ++through;
      if (engine.rank() == lost) {
        while (through < 4) std::this_thread::yield();
        return false;
      }
      for (int again = 0; again < 2; ++again) {
        const auto result = barrier.run(driver, driver.deadline(kWatchdog));
        EXPECT_FALSE(result.ok());
        if (result.ok()) return true;
        EXPECT_EQ(result.error().code, Errc::lost_peer) << result.error().message;
        EXPECT_EQ(result.error().rank, lost) << result.error().message;
      }
      return true;
    });
  }
}

TEST(PlainFailures, ATimeoutNamesWhoIsMissingAndTheRoundGoesOn) {
  std::atomic<bool> go{false};
  run_thread_job(2, [&](Engine& engine) {
    Allgather gather(engine, DataType::int32, 1);
    EngineDriver driver(engine);
    std::vector<std::int32_t> mine{engine.rank() + 10}, all(2), other(2);
    gather.run(driver, driver.deadline(kWatchdog), mine, all).or_throw();
    mine[0] += 100;
    if (engine.rank() == 1) {
      while (!go) std::this_thread::yield();
    } else {
      const auto result = gather.run(driver, driver.deadline(20ms), mine, all);
      EXPECT_FALSE(result.ok());
      if (!result.ok()) {
        EXPECT_EQ(result.error().code, Errc::timeout);
        EXPECT_THAT(result.error().message,
                    AllOf(HasSubstr("allgather of 1 int32 a rank, round 1: not complete after "),
                          HasSubstr("nothing has come from rank 1")));
      }
      EXPECT_THROW((void)gather.run(driver, driver.deadline(1s), mine, other), UsageError);
      go = true;
    }
    gather.run(driver, driver.deadline(kWatchdog), mine, all).or_throw();
    EXPECT_EQ(all, (std::vector<std::int32_t>{110, 111}));
    return true;
  });
}

TEST(PlainCollectives, ACallThatWaitsHearsThatTheMembersChange) {
  std::barrier<> all(2);
  run_thread_job(2, [&](Engine& engine) {
    Barrier barrier(engine);
    Allreduce by_messages(engine, DataType::int64, 1, ReduceOp::sum, {.seats = 1});
    Allreduce on_a_board(engine, DataType::int64, 1, ReduceOp::sum, {.seats = 2});
    EngineDriver driver(engine, {.spin = 0ns});
    std::int64_t mine = 1, sum = 0;
    EXPECT_TRUE(on_a_board.run(driver, driver.deadline(60s), std::span(&mine, 1), std::span(&sum, 1)));
    EXPECT_EQ(sum, 2);
    all.arrive_and_wait();
    if (engine.rank() == 0) {
      const std::jthread beside([&engine] {
        std::this_thread::sleep_for(20ms);  // the call below most likely waits by then
        engine.freeze();
      });
      const auto cut_off = on_a_board.run(driver, driver.deadline(60s), std::span(&mine, 1), std::span(&sum, 1));
      EXPECT_EQ(cut_off ? Errc::io : cut_off.error().code, Errc::members_changed);
      for (const auto& later :
           {barrier.run(driver, driver.deadline(60s)),
            by_messages.run(driver, driver.deadline(60s), std::span(&mine, 1), std::span(&sum, 1))}) {
        EXPECT_EQ(later ? Errc::io : later.error().code, Errc::members_changed);
      }
    }
    all.arrive_and_wait();
    return true;
  });
}

TEST(PlainCollectives, ACallByMessagesThatWaitsHearsThatTheMembersChange) {
  std::barrier<> all(2);
  run_thread_job(2, [&](Engine& engine) {
    Barrier barrier(engine);
    EngineDriver driver(engine, {.spin = 0ns});
    EXPECT_TRUE(barrier.run(driver, driver.deadline(60s)));
    all.arrive_and_wait();
    if (engine.rank() == 0) {
      const std::jthread beside([&engine] {
        std::this_thread::sleep_for(20ms);
        engine.freeze();
      });
      const auto cut_off = barrier.run(driver, driver.deadline(60s));
      EXPECT_EQ(cut_off ? Errc::io : cut_off.error().code, Errc::members_changed);
    }
    all.arrive_and_wait();
    return true;
  });
}

}  // namespace
}  // namespace stretto
