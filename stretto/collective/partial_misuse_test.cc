// A partial allreduce that is used against its rules says so, and goes on where it can.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/testing/thread_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::ThrowsMessage;

const auto kIgnore = [](const RoundResult&) {};

/// One rank on a board, by messages, and on one of several boards: what a call refuses does not depend on it.
class PartialMisuse : public testing::TestWithParam<int> {
 protected:
  static std::vector<BucketSpec> buckets() { return {{DataType::int64, 3}, {DataType::int64, 4}}; }
  /// Runs `main` with the collective of each of 3 ranks, of policy full.
  static void run(const std::function<void(PartialAllreduce&, Driver&)>& main) {
    run_thread_job(3, [&](Engine& engine) {
      PartialAllreduce allreduce(engine, buckets(), {.seats = GetParam()});
      EngineDriver driver(engine, {.spin = 0ns});
      main(allreduce, driver);
      EXPECT_TRUE(allreduce.finish(driver, driver.deadline(60s), kIgnore));
      return true;
    });
  }
};

TEST_P(PartialMisuse, AContributionIsDepositedOnceBeforeTheNextIsAcquired) {
  run([](PartialAllreduce& allreduce, Driver& driver) {
    Contribution& mine = allreduce.acquire();
    for (int again = 0; again < 2 * allreduce.num_contribution_sets(); ++again) {
      EXPECT_THAT([&] { allreduce.acquire(); }, ThrowsMessage<UsageError>(HasSubstr("has been deposited")));
    }
    allreduce.deposit(mine, {});
    EXPECT_THAT([&] { allreduce.deposit(mine, {}); }, ThrowsMessage<UsageError>(HasSubstr("deposited already")));
    EXPECT_TRUE(allreduce.exchange(driver, driver.deadline(60s), kIgnore));
  });
}

TEST_P(PartialMisuse, NothingFollowsFinish) {
  run([](PartialAllreduce& allreduce, Driver& driver) {
    Contribution& mine = allreduce.acquire();
    EXPECT_TRUE(allreduce.finish(driver, driver.deadline(60s), kIgnore));
    EXPECT_THAT([&] { allreduce.deposit(mine, {}); }, ThrowsMessage<UsageError>(HasSubstr("after finish()")));
    EXPECT_THAT([&] { (void)allreduce.exchange(driver, driver.deadline(1s), kIgnore); },
                ThrowsMessage<UsageError>(HasSubstr("after finish()")));
  });
}

TEST_P(PartialMisuse, FinishWaitsForTheExchangeBeforeIt) {
  run([](PartialAllreduce& allreduce, Driver& driver) {
    Contribution& mine = allreduce.acquire();
    allreduce.begin_deposit(mine, {});
    EXPECT_THAT([&] { (void)allreduce.finish(driver, driver.deadline(1s), kIgnore); },
                ThrowsMessage<UsageError>(HasSubstr("while an exchange waits")));
    EXPECT_THAT([&] { allreduce.bucket_ready(mine, 1); }, ThrowsMessage<UsageError>(HasSubstr("in order")));
    allreduce.bucket_ready(mine, 0);
    EXPECT_THAT([&] { allreduce.begin_deposit(allreduce.acquire(), {}); },
                ThrowsMessage<UsageError>(HasSubstr("is pending")));
    allreduce.bucket_ready(mine, 1);
    EXPECT_THAT([&] { allreduce.bucket_ready(mine, 2); }, ThrowsMessage<UsageError>(HasSubstr("2 of 2 buckets")));
    EXPECT_TRUE(allreduce.exchange(driver, driver.deadline(60s), kIgnore));
  });
}

INSTANTIATE_TEST_SUITE_P(Over, PartialMisuse, testing::Values(0, 1, 2));

TEST(PartialOptions, AreRefusedWhereTheyCannotBe) {
  auto memory = JobMemory::create(3).or_throw();
  ShmTransport transport(memory, 0);
  const SteadyClock clock;
  Engine engine(transport, clock);
  const auto make = [&](const PartialOptions& options) {
    return [&engine, options] { PartialAllreduce(engine, {{DataType::int64, 1}}, options); };
  };
  for (const std::uint64_t bytes : {0, 7, 100}) {
    EXPECT_THAT(make({.piece_bytes = bytes}), ThrowsMessage<UsageError>(HasSubstr(text("piece_bytes ", bytes))));
  }
  EXPECT_THAT(make({.delivery = Delivery::latest, .seats = 2}),
              ThrowsMessage<UsageError>(HasSubstr("delivery latest")));
}

/// Rank 0 of 3 that share no memory, of the others of whom nothing ever comes.
class Alone final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 3; }
  void send(int, Envelope, std::span<const std::byte>, std::span<const std::byte>, SendToken) override {}
  bool poll(MessageSink&) override { return false; }
  Doorbell& doorbell() override { return doorbell_; }
  const Members& members() const override { return members_; }
  const char* name() const override { return "alone"; }

 private:
  const Members members_{3};
  DoorbellWords words_;
  Doorbell doorbell_{words_, true};
};

TEST(PartialOptions, SeatsNeedMemoryThatRanksShare) {
  Alone transport;
  const SteadyClock clock;
  Engine engine(transport, clock);
  EXPECT_THAT(
      [&] {
        PartialAllreduce(engine, {{DataType::int64, 1}}, {.seats = 2});
      },
      ThrowsMessage<UsageError>(HasSubstr("the ranks share no memory")));
}

}  // namespace
}  // namespace stretto
