#include "command/bench/peers.h"

#include <gmock/gmock.h>

namespace stretto::command {
namespace {

using testing::HasSubstr;

TEST(Peers, PrintALineASize) {
  const auto readings = parse_readings("warning: something\n8 1000 0.5\n\n1024 77 12.25\n9 1\n8 1 2 3\n", 3, 2);
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(readings[0].ranks, 3);
  EXPECT_EQ(readings[0].bytes, 8u);
  EXPECT_EQ(readings[1].values, (std::vector<double>{77, 12.25}));
}

TEST(Peers, MustPrintEverySize) {
  const std::vector<std::uint64_t> sizes = {8, 16};
  std::vector<std::string> arguments;
  const Peer peer{"mine", [&arguments](const PeerJob& job) -> Result<std::string> {
                    arguments = job.arguments;
                    return std::string("8 1\n");
                  }};
  const auto readings = measure_peer(peer, {"allreduce", 2, {"0.1"}, Duration(0)}, sizes, 1);
  ASSERT_FALSE(readings.ok());
  EXPECT_EQ(readings.error().code, Errc::aborted);
  EXPECT_EQ(arguments, (std::vector<std::string>{"0.1", "8", "16"}));
}

TEST(Peers, AreChosenByName) {
  EXPECT_TRUE(parse_peers("").empty());
  const auto peers = parse_peers("gloo,openmpi");
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers[0].name, "gloo");
  EXPECT_EQ(openmpi().name, "openmpi");
  try {
    parse_peers("openmpy");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean openmpi?"));
  }
  EXPECT_THROW(parse_peers("gloo,gloo"), UsageError);
}

}  // namespace
}  // namespace stretto::command
