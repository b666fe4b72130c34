#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/simulate/cluster.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(NetworkSpec, LeavesOutWhatIsNotSaid) {
  const NetworkOptions network = parse_network("");
  EXPECT_EQ(network.latency, 1us);
  EXPECT_EQ(network.overhead, 100ns);
  EXPECT_EQ(network.bytes_per_second, 10e9);
  EXPECT_EQ(network.jitter, 0ns);
  EXPECT_TRUE(network.shared_card);
}

TEST(NetworkSpec, ReadsEveryPartInAnyOrder) {
  const NetworkOptions network = parse_network("jitter=300ns,bandwidth=25Gbit/s,overhead=0,latency=1.5ms");
  EXPECT_EQ(network.latency, 1500us);
  EXPECT_EQ(network.overhead, 0ns);
  EXPECT_EQ(network.bytes_per_second, 25e9 / 8);
  EXPECT_EQ(network.jitter, 300ns);
  EXPECT_EQ(to_text(network), "latency=1.5ms,bandwidth=3.125GB/s,overhead=0s,jitter=300ns");
  EXPECT_EQ(to_text(parse_network(to_text(network))), to_text(network));
}

TEST(NetworkSpec, ReadsUnitsOfBandwidth) {
  EXPECT_EQ(parse_network("bandwidth=3MB/s").bytes_per_second, 3e6);
  EXPECT_EQ(parse_network("bandwidth=100kB/s").bytes_per_second, 1e5);
  EXPECT_EQ(parse_network("bandwidth=100000B/s").bytes_per_second, 1e5);
  EXPECT_EQ(parse_network("bandwidth=1.5Mbit/s").bytes_per_second, 1.5e6 / 8);
}

TEST(NetworkSpec, ReadsHowCardsAreShared) {
  EXPECT_FALSE(parse_network("").fair_shares);
  EXPECT_FALSE(parse_network("sharing=fifo").fair_shares);
  const NetworkOptions network = parse_network("unevenness=0.25,sharing=fair");
  EXPECT_TRUE(network.fair_shares);
  EXPECT_EQ(network.unevenness, 0.25);
  EXPECT_EQ(to_text(network), "latency=1us,bandwidth=10GB/s,overhead=100ns,jitter=0s,sharing=fair,unevenness=0.25");
  EXPECT_EQ(to_text(parse_network(to_text(network))), to_text(network));
}

TEST(NetworkSpec, NamesThePartThatIsWrong) {
  for (const char* written : {"latency",
                              "latency=1",
                              "latency=-1us",
                              "speed=1us",
                              "bandwidth=10",
                              "bandwidth=0GB/s",
                              "bandwidth=2e9GB/s",
                              "bandwidth=-1GB/s",
                              "bandwidth=nanGB/s",
                              "bandwidth=1 GB/s",
                              "bandwidth=1GB",
                              ",",
                              "latency=1us,",
                              ",latency=1us",
                              "latency=1us,,jitter=0",
                              "1us",
                              "sharing=equal",
                              "sharing=fair,unevenness=-1",
                              "sharing=fair,unevenness=11",
                              "sharing=fair,unevenness=1x",
                              "sharing=fair,unevenness=nan"}) {
    try {
      parse_network(written);
      ADD_FAILURE() << written;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text("network ", written))) << written;
      EXPECT_THAT(error.what(), HasSubstr("latency=1us,bandwidth=10GB/s")) << written;
    }
  }
  EXPECT_THROW(parse_network("unevenness=0.5"), UsageError) << "of what is shared in order";
}

}  // namespace
}  // namespace stretto
