#include "stretto/schedule/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/schedule/builder.h"
#include "stretto/schedule/testing/refusal.h"

namespace stretto {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// One message from rank 0 to rank 1, each side with its own idea of it.
struct Side {
  int channel = 0;
  std::uint64_t count = 4;
  bool header = false;
};

std::vector<Schedule> one_message(Side send, Side recv) {
  ScheduleBuilder zero("message", 0, 2), one("message", 1, 2);
  const OpId s = zero.send(1, send.channel, zero.whole(zero.buffer("x", DataType::float32, send.count)), {});
  const OpId r = one.recv(0, recv.channel, one.whole(one.buffer("x", DataType::float32, recv.count)), {});
  zero.label(s, "out");
  one.label(r, "in");
  if (send.header) zero.with_header(s);
  if (recv.header) one.with_header(r);
  return {zero.build(s), one.build(r)};
}

TEST(Validate, AcceptsWhatMatches) {
  EXPECT_EQ(refusal(one_message({}, {})), "no error");
  EXPECT_EQ(
      refusal(one_message({.channel = 3, .count = 0, .header = true}, {.channel = 3, .count = 0, .header = true})),
      "no error");
  EXPECT_EQ(refusal({}), "no error");
}

TEST(Validate, NamesASendWithoutRecvAndARecvWithoutSend) {
  EXPECT_THAT(refusal(one_message({.channel = 1}, {.channel = 2})),
              HasSubstr("rank 0's send #0 \"out\" (to rank 1, channel 1) has no matching recv on rank 1"));
  auto schedules = one_message({}, {});
  ScheduleBuilder silent("message", 0, 2);
  schedules[0] = silent.build(silent.nop({}));
  EXPECT_THAT(refusal(schedules),
              HasSubstr("rank 1's recv #0 \"in\" (from rank 0, channel 0) has no matching send on rank 0"));
}

TEST(Validate, NamesSizesAndHeadersThatDiffer) {
  EXPECT_THAT(refusal(one_message({.count = 4}, {.count = 5})),
              AllOf(HasSubstr("rank 0's send #0 \"out\""), HasSubstr("sends 16 bytes"),
                    HasSubstr("rank 1's recv #0 \"in\""), HasSubstr("takes 20")));
  EXPECT_THAT(refusal(one_message({.header = true}, {})),
              AllOf(HasSubstr("carries a header"), HasSubstr("does not expect one")));
  EXPECT_THAT(refusal(one_message({}, {.header = true})),
              AllOf(HasSubstr("does not carry a header"), HasSubstr("expects one")));
}

TEST(Validate, WantsEveryRankInItsPlace) {
  auto schedules = one_message({}, {});
  std::swap(schedules[0], schedules[1]);
  EXPECT_THAT(refusal(schedules), HasSubstr("schedule 0 of 2 is \"message\" of rank 1 of 2"));
  std::swap(schedules[0], schedules[1]);
  EXPECT_THAT(refusal({schedules.data(), 1}), HasSubstr("schedule 0 of 1"));
}

/// Any set of messages with channels of their own passes; losing any one end of them does not.
TEST(Validate, RandomExchangesPassAndALostEndIsFound) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const int ranks = static_cast<int>(random.between(2, 9));
    const auto num_messages = static_cast<int>(random.between(1, 20));
    const auto lost = random.below(2 * static_cast<std::uint64_t>(num_messages));
    for (const bool lose : {false, true}) {
      Random draw(seed, 1);
      std::vector<ScheduleBuilder> builders;
      for (int rank = 0; rank < ranks; ++rank) {
        builders.emplace_back("random", rank, ranks);
        builders.back().buffer("x", DataType::int64, 100);
        builders.back().nop({});
      }
      for (int channel = 0; channel < num_messages; ++channel) {
        const int src = static_cast<int>(draw.below(static_cast<std::uint64_t>(ranks)));
        const int dst = (src + static_cast<int>(draw.between(1, ranks - 1))) % ranks;
        const Slice slice{0, 0, draw.below(101)};
        const auto end = 2 * static_cast<std::uint64_t>(channel);
        if (!lose || lost != end) builders[static_cast<std::size_t>(src)].send(dst, channel, slice, {});
        if (!lose || lost != end + 1) builders[static_cast<std::size_t>(dst)].recv(src, channel, slice, {});
      }
      std::vector<Schedule> schedules;
      for (const auto& builder : builders) schedules.push_back(builder.build(0));
      if (lose) {
        EXPECT_THAT(refusal(schedules), HasSubstr(text("channel ", lost / 2))) << "seed " << seed;
      } else {
        EXPECT_EQ(refusal(schedules), "no error") << "seed " << seed;
        EXPECT_EQ(messages_of(schedules).size(), static_cast<std::size_t>(num_messages));
      }
    }
  }
}

}  // namespace
}  // namespace stretto
