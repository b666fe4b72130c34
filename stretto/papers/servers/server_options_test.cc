#include "stretto/papers/servers/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;

std::string refusal(const ServerOptions& options, int ranks) {
  try {
    check_server_options(options, ranks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ServerOptions, DealBucketsToServersInTurns) {
  const ServerOptions all{};
  for (int bucket = 0; bucket < 7; ++bucket) EXPECT_EQ(all.server_of(bucket, 3), bucket % 3);
  const ServerOptions dedicated{.servers = 2, .dedicated = true};
  EXPECT_EQ(dedicated.num_workers(5), 3);
  EXPECT_EQ(dedicated.server_of(0, 5), 3);
  EXPECT_EQ(dedicated.server_of(1, 5), 4);
  EXPECT_EQ(dedicated.server_of(2, 5), 3);
}

TEST(ServerOptions, RefuseWhatDoesNotFitTheRanks) {
  EXPECT_EQ(refusal({}, 1), "");
  EXPECT_EQ(refusal({.mode = ServerMode::k_sync, .enough = 4}, 4), "");
  EXPECT_EQ(refusal({.servers = 1, .dedicated = true}, 2), "");
  EXPECT_THAT(refusal({.servers = 5}, 4), HasSubstr("5 servers among 4 ranks; expected 1 to 4"));
  EXPECT_THAT(refusal({.servers = 4, .dedicated = true}, 4), HasSubstr("none is left to compute"));
  EXPECT_THAT(refusal({.mode = ServerMode::k_sync, .enough = 5}, 4), HasSubstr("expected K from 1 to 4"));
  EXPECT_THAT(refusal({.mode = ServerMode::k_sync, .enough = 0}, 4), HasSubstr("expected K from 1 to 4"));
  EXPECT_THAT(refusal({.mode = ServerMode::k_sync, .enough = 3, .servers = 2, .dedicated = true}, 4),
              HasSubstr("expected K from 1 to 2"));
}

}  // namespace
}  // namespace stretto
