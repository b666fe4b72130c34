// Allreduces of ranks on several hosts, on a virtual clock: those of a host share memory, and nobody else does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "stretto/collective/plain.h"
#include "stretto/simulate/virtual_ranks.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::ThrowsMessage;

void run_on_hosts(const Members& members, const std::function<void(Engine&, VirtualRank&)>& main) {
  SimulatedCluster cluster(members.size(), {}, 1);
  cluster.place(members);
  cluster.share_memory(SharedArena::overhead() + (std::uint64_t{16} << 20));
  VirtualRanks(cluster).run([&](VirtualRank& rank) {
    Engine engine(rank.transport(), rank.clock());
    rank.drive_engine(&engine);
    main(engine, rank);
    rank.drive_engine(nullptr);
  });
}

const std::vector<Members> kPlaces = {Members({0, 0, 1, 1, 1}), Members({0, 1, 0, 1, 0}),
                                      Members({0, 1, 2, 2, 1, 0, 0}), Members({0, 1, 2})};

TEST(OnHosts, AnAllreduceSumsWhatAllHaveBroughtHoweverBoardsAreCut) {
  for (const Members& members : kPlaces) {
    for (const AllreduceOptions& options :
         {AllreduceOptions{}, AllreduceOptions{.through = AllreduceOptions::Through::gather},
          AllreduceOptions{.seats = 2}, AllreduceOptions{.seats = 1}}) {
      run_on_hosts(members, [&](Engine& engine, VirtualRank& driver) {
        for (const std::uint64_t count : {1u, 1000u, 70'003u}) {
          Allreduce allreduce(engine, DataType::int64, count, ReduceOp::sum, options);
          std::vector<std::int64_t> mine(count), sum(count), right(count);
          for (std::int64_t round = 0; round < 3; ++round) {
            std::iota(mine.begin(), mine.end(), round << engine.rank());
            driver.compute((engine.rank() + round) % 3 * 1ms);
            allreduce.run(driver, driver.deadline(10ms), mine, sum).or_throw();
            std::iota(right.begin(), right.end(), 0);
            for (auto& element : right) element = element * engine.size() + round * ((1 << engine.size()) - 1);
            EXPECT_EQ(sum, right) << allreduce.explanation();
          }
        }
      });
    }
  }
}

TEST(OnHosts, ARankIsNamedThatHasNotComeToABoardOfAnotherHost) {
  const Members members({0, 1, 0, 1, 2});
  for (int late = 0; late < members.size(); ++late) {
    run_on_hosts(members, [&](Engine& engine, VirtualRank& driver) {
      Allreduce allreduce(engine, DataType::int64, 10, ReduceOp::sum, {.through = AllreduceOptions::Through::gather});
      std::vector<std::int64_t> mine(10, 1), sum(10);
      if (engine.rank() == late) driver.compute(1s);
      for (bool over = false; !over;) {
        const auto result = allreduce.run(driver, driver.deadline(300ms), mine, sum);
        over = result.ok();
        if (!over) {
          EXPECT_THAT(result.error().message, EndsWith(text("; nothing has come from rank ", late)));
        }
      }
      EXPECT_EQ(sum, std::vector<std::int64_t>(10, 5));
    });
  }
}

TEST(OnHosts, ABoardOfAllRanksIsRefused) {
  run_on_hosts(Members({0, 1, 0}), [&](Engine& engine, VirtualRank&) {
    EXPECT_THAT(
        [&] {
          Allreduce(engine, DataType::int64, 10, ReduceOp::sum, {.through = AllreduceOptions::Through::exchange});
        },
        ThrowsMessage<UsageError>(HasSubstr("expected all ranks on one host, they are on 2")));
  });
}

}  // namespace
}  // namespace stretto
