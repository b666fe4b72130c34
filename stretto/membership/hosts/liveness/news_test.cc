#include "stretto/membership/hosts/liveness/news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace stretto {
namespace {

using testing::ElementsAre;

std::vector<std::string> words(const HostNews& news) {
  std::vector<std::string> out;
  for (const Error& why : news.all_lost()) out.push_back(text(why.rank, ' ', name_of(why.code), ' ', why.message));
  return out;
}

TEST(HostNews, KeepsTheFirstWordOfEachRankInTheOrderInWhichTheyCame) {
  std::vector<std::byte> memory(HostNews::bytes_needed(4));
  HostNews speaker(memory, 4);
  const HostNews other(memory, 4);
  EXPECT_EQ(other.lost(), 0u);
  speaker.lose({Errc::lost_peer, "first", 2});
  speaker.lose({Errc::aborted, "second", 0});
  speaker.lose({Errc::aborted, "too late", 2});
  EXPECT_EQ(other.lost(), 2u);
  EXPECT_THAT(words(other), ElementsAre("2 lost_peer first", "0 aborted second"));
}

TEST(HostNews, KeepsTheLastWordOfTheClock) {
  std::vector<std::byte> memory(HostNews::bytes_needed(1));
  HostNews speaker(memory, 1);
  const HostNews other(memory, 1);
  EXPECT_EQ(other.clock_offset(), std::nullopt);
  for (const Duration ahead : {Duration(0), Duration(-5), Duration(7)}) {
    speaker.set_clock_offset(ahead);
    EXPECT_EQ(other.clock_offset(), ahead);
  }
}

TEST(HostNews, CutsALongWord) {
  std::vector<std::byte> memory(HostNews::bytes_needed(1));
  HostNews news(memory, 1);
  news.lose({Errc::aborted, std::string(10'000, 'x'), 0});
  EXPECT_EQ(news.all_lost().at(0).message, std::string(499, 'x'));
}

// A speaker that stood still goes on beside its deputy.
TEST(HostNews, TwoWritersLoseNothing) {
  constexpr int kRanks = 200;
  std::vector<std::byte> memory(HostNews::bytes_needed(kRanks));
  const auto write = [&] {
    HostNews news(memory, kRanks);
    for (int rank = 0; rank < kRanks; ++rank) news.lose({Errc::lost_peer, text("rank ", rank), rank});
  };
  std::thread one(write), two(write);
  one.join();
  two.join();
  const HostNews news(memory, kRanks);
  EXPECT_EQ(news.lost(), static_cast<std::uint32_t>(kRanks));
  for (const Error& why : news.all_lost()) EXPECT_EQ(why.message, text("rank ", why.rank));
}

}  // namespace
}  // namespace stretto
