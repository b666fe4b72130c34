#include "stretto/membership/hosts/carrier_choice.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "stretto/transport/hosts/ucx.h"

namespace stretto {
namespace {

const std::vector<std::string> kNames = {"h1", "h2", "h2"};
const std::string kOurs = "1.13.1";

TEST(CarrierChoice, IsUcxWhereAllHaveTheSame) {
  for (const bool wanted : {true, false}) {
    const auto choice = choose_carrier(wanted ? "ucx" : "auto", {kOurs, kOurs, kOurs}, kNames);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->engine, CarrierChoice::Engine::ucx);
    EXPECT_EQ(choice->why,
              wanted ? "ucx 1.13.1, as is wanted" : "ucx 1.13.1, since every host has an active port for RDMA");
  }
  EXPECT_EQ(choose_carrier("tcp", {kOurs, kOurs, kOurs}, kNames)->engine, CarrierChoice::Engine::tcp);
}

TEST(CarrierChoice, NamesWhoKeepsItFromThat) {
  const auto expect = [](const std::vector<std::string>& offers, const std::string& why) {
    const auto chosen = choose_carrier("auto", offers, kNames);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->engine, CarrierChoice::Engine::tcp);
    EXPECT_EQ(chosen->why, "tcp, since " + why);
    const auto refused = choose_carrier("ucx", offers, kNames);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::unavailable);
    EXPECT_EQ(refused.error().message,
              "no messages go by UCX: " + why + "; the same UCX on all hosts would do, or --between tcp");
  };
  expect({kOurs, kOurs, "1.20.0"}, "rank 2 on h2 has UCX 1.20.0, rank 0 on h1 has UCX 1.13.1");
  expect({kOurs, "no UCX: so", "1.20.0"}, "rank 1 on h2: no UCX: so");
  expect({"no UCX: so", kOurs, kOurs}, "rank 0 on h1: no UCX: so");
}

TEST(CarrierChoice, IsMpiWhereAllHaveTheSame) {
  const std::string ours = "4.1.4 (Open MPI)";
  const auto choice = choose_carrier("mpi", {ours, ours, ours}, kNames);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->engine, CarrierChoice::Engine::mpi);
  EXPECT_EQ(choice->why, "mpi 4.1.4 (Open MPI), as is wanted");
  EXPECT_EQ(
      choose_carrier("mpi", {ours, ours, "4.0.2 (MPICH)"}, kNames).error().message,
      "no messages go by MPI: rank 2 on h2 has MPI 4.0.2 (MPICH), rank 0 on h1 has MPI 4.1.4 (Open MPI); the same "
      "MPI on all hosts would do, or --between tcp");
}

TEST(CarrierChoice, ARankOffersUcxWhereItIsWantedOrHasRdma) {
  EXPECT_EQ(carrier_offer("tcp"), "tcp is wanted");
  const std::string folder = testing::TempDir() + "stretto-choice-" + std::to_string(::getpid());
  EXPECT_EQ(carrier_offer("auto", folder), "no port for RDMA is active");
  std::filesystem::create_directories(folder + "/mlx5_0/ports/1");
  std::ofstream(folder + "/mlx5_0/ports/1/state") << "4: ACTIVE\n";
  const auto version = ucx_version();
  EXPECT_EQ(carrier_offer("auto", folder), version ? *version : version.error().message);
  EXPECT_EQ(carrier_offer("ucx", folder + "/none"), version ? *version : version.error().message);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stretto
