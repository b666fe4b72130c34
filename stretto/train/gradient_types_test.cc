// Parameters of bfloat16, the gradients of which are added up as float32, under every algorithm; and means of bfloat16.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/membership/rank_over_transport.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/job/session.h"
#include "stretto/train/testing/half_replica.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::size_t kCount = 5;

struct Deaf final : RoundListener {
  void before(const RoundResult&) override {}
  void after(const RoundResult&) override {}
};

std::vector<float> floats(const std::vector<BFloat16>& halves) {
  std::vector<float> out;
  for (const BFloat16 x : halves) out.push_back(to_float(x));
  return out;
}

/// What `application` does on each of several ranks on a virtual clock.
void run(int ranks, const std::string& name, DataType gradients,
         const std::function<void(int rank, HalfReplica&, Session&)>& application) {
  SimulatedCluster cluster(ranks, {.jitter = 20us}, 3);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOverTransport context(place.transport(), place.clock(), &place);
    place.drive_engine(&context.world().engine());
    HalfReplica replica(gradients, kCount, 0.5);
    Deaf deaf;
    const Algorithm algorithm = parse_algorithm(name, ranks, 0);
    Session session(context, replica, deaf,
                    {.recipe = algorithm.recipe,
                     .recipe_options = {.policy = algorithm.policy,
                                        .local_steps = algorithm.recipe->local_steps,
                                        .argument = algorithm.argument}});
    session.begin({});
    application(place.rank(), replica, session);
  });
}

void step(Session& session, HalfReplica& replica, float gradient) {
  session.begin_step(1, Duration(0));
  const std::vector<float> wide(kCount, gradient);
  narrow(replica.buckets()[0].type, replica.gradient(), std::as_bytes(std::span(wide)));
  session.end_backward("here");
  session.deposit(Duration(0));
  session.take();
}

TEST(GradientTypesTest, GradientsAreSummedInTheirOwnType) {
  // 256 + 1 + 1 is 258 in float32. In bfloat16 each 1 is lost: 257 is rounded to 256.
  for (const auto& [gradients, sum] : {std::pair(DataType::float32, 258.0f), std::pair(DataType::bfloat16, 256.0f)}) {
    run(3, "sync", gradients, [sum = sum](int rank, HalfReplica& replica, Session& session) {
      step(session, replica, rank == 0 ? 256 : 1);
      const BFloat16 moved = to_bfloat16(-0.5f * (sum / 3));
      EXPECT_EQ(floats(replica.numbers()), std::vector<float>(kCount, to_float(moved)));
      session.finish();
    });
  }
}

TEST(GradientTypesTest, AlgorithmsWithoutServersTakeGradientsOfAnotherType) {
  for (const std::string name :
       {"sync", "eager-solo", "eager-quorum", "local", "local:quorum:2", "diloco", "wagma:2", "wagma-quorum:2",
        "d-psgd", "sgp", "osgp", "gossip-grad", "ad-psgd", "easgd", "easgd-async"}) {
    std::vector<std::vector<float>> ends(3);
    run(3, name, DataType::float32, [&](int rank, HalfReplica& replica, Session& session) {
      for (int number = 0; number < 10 + rank; ++number) step(session, replica, static_cast<float>(rank + 1) / 8);
      session.finish();
      EXPECT_LT(to_float(replica.numbers()[0]), 0) << name;
      ends[static_cast<std::size_t>(rank)] = floats(replica.numbers());
    });
    EXPECT_THAT(ends, testing::Each(ends[0])) << name;
  }
}

TEST(GradientTypesTest, ServersRefuseGradientsOfAnotherType) {
  for (const std::string name : {"ps-sync", "ps-async", "ssp:2", "k-sync:2"}) {
    EXPECT_THAT([&] { run(2, name, DataType::float32, [](int, HalfReplica&, Session&) { FAIL(); }); },
                testing::ThrowsMessage<UsageError>(
                    HasSubstr("a parameter server with bucket 0 of bfloat16 parameters and float32 gradients")));
    std::vector<std::vector<float>> ends(2);
    run(2, name, DataType::bfloat16, [&](int rank, HalfReplica& replica, Session& session) {
      for (int number = 0; number < 10; ++number) step(session, replica, 0.25f);
      session.finish();
      ends[static_cast<std::size_t>(rank)] = floats(replica.numbers());
    });
    EXPECT_EQ(ends[1], ends[0]) << name;
    EXPECT_LT(ends[0][0], 0) << name;
  }
}

TEST(GradientTypesTest, MeansOfAllRanksAreRoundedOnce) {
  for (const int ranks : {1, 2, 3, 5}) {
    run_thread_job(ranks, [&](Engine& engine) {
      HalfReplica replica(DataType::float32, kCount, 1);
      Meeting meeting(engine, replica);
      EngineDriver driver(engine);
      // The sums have more digits than bfloat16: 256 + 1 + 1 + …
      const auto fill = [&](std::vector<BFloat16>& numbers) {
        std::fill(numbers.begin(), numbers.end(), to_bfloat16(engine.rank() == 0 ? 256 : 1));
      };
      const float mean = to_float(to_bfloat16(static_cast<float>(255 + ranks) / static_cast<float>(ranks)));
      fill(replica.numbers());
      meeting.average_parameters(driver);
      EXPECT_EQ(floats(replica.numbers()), std::vector<float>(kCount, mean)) << ranks;
      fill(replica.momentum());
      meeting.average_optimizer(driver);
      EXPECT_EQ(floats(replica.momentum()), std::vector<float>(kCount, mean)) << ranks;
      return true;
    });
  }
}

TEST(GradientTypesTest, TheSpreadOfMeansIsPartOfTheVariance) {
  run_thread_job(2, [&](Engine& engine) {
    HalfReplica replica(DataType::bfloat16, kCount, 1);
    Meeting meeting(engine, replica);
    EngineDriver driver(engine);
    const float mine = engine.rank() == 0 ? 1 : 7;
    replica.statistics() = {to_bfloat16(mine), to_bfloat16(mine + 1)};
    meeting.average_buffers(driver);
    EXPECT_EQ(floats(replica.statistics()), (std::vector<float>{4, 5 + 9}))
        << "the mean of 2 and 8, and that of 3² and 3²";
    return true;
  });
}

}  // namespace
}  // namespace stretto
