#include "command/run/places/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::command {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string complaint(const std::string& text) {
  try {
    parse_hosts("--hosts", text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(HostList, HasOneRankAHostUnlessItSaysMore) {
  EXPECT_THAT(parse_hosts("--hosts", "a,me@b:4,[fd77::1]:2,[fd77::2]"),
              ElementsAre(HostRanks{"a", 1}, HostRanks{"me@b", 4}, HostRanks{"fd77::1", 2}, HostRanks{"fd77::2", 1}));
  EXPECT_EQ(ranks_of(parse_hosts("--hosts", "a,b:4,c")), 6);
}

TEST(HostList, IsFilledInItsOrder) {
  const auto hosts = parse_hosts("--hosts", "a:2,b:4,c");
  EXPECT_EQ(first_ranks(hosts, 7), hosts);
  EXPECT_THAT(first_ranks(hosts, 3), ElementsAre(HostRanks{"a", 2}, HostRanks{"b", 1}));
}

TEST(HostList, RefusesByName) {
  EXPECT_EQ(complaint("b:0"), "--hosts b:0: expected HOST:N with N from 1 to 1024, as in --hosts a,b:4");
  EXPECT_EQ(complaint("b:x"), "--hosts b:x: expected HOST:N with N from 1 to 1024, as in --hosts a,b:4");
  EXPECT_EQ(complaint("a,b,a:2"),
            "--hosts a,b,a:2: a is named twice; expected it once, with the number of its ranks, as in --hosts a:2");
  EXPECT_THAT(complaint("a,b:1024"), HasSubstr("these are 1025 ranks; expected 1024 at most"));
  EXPECT_THAT(complaint("a,,b"), HasSubstr("'' is no host"));
  EXPECT_THAT(complaint(""), HasSubstr("expected hosts"));
  for (const char* text : {"-oProxyCommand=x", "a b", "fd77::1", "[fd77::1", "[]", "[-ofd77::1]", "[fd77::1]4"}) {
    EXPECT_NE(complaint(text), "none") << text;
  }
}

TEST(HostList, KnowsThisHost) {
  EXPECT_TRUE((HostRanks{"localhost", 1}.is_here()));
  EXPECT_FALSE((HostRanks{"no-such-host.example", 1}.is_here()));
}

}  // namespace
}  // namespace stretto::command
