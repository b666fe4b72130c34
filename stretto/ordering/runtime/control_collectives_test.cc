#include "stretto/ordering/runtime/control_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>

#include "stretto/base/random.h"
#include "stretto/ordering/testing/part_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using Kind = OrdererAction::Kind;

using ControlJob = PartJob<ControlCollectives>;

std::vector<std::byte> body_of(int rank, std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> body(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    body[i] = static_cast<std::byte>(static_cast<std::size_t>(rank) * 31 + number * 7 + i);
  }
  return body;
}

/// Empty, in one piece, in several.
std::size_t length_of(int rank, std::uint64_t number) {
  constexpr std::size_t kLengths[] = {0, 1, kMaxHeadBytes, kMaxHeadBytes + 1, 3 * kMaxHeadBytes};
  return kLengths[(static_cast<std::size_t>(rank) + number) % 5];
}

OrdererAction action_of(int rank, std::uint64_t number) {
  OrdererAction action{.control = number};
  switch (number % 4) {
    case 0:
      action.kind = Kind::sync;
      action.words = {~(std::uint64_t{1} << rank), ~std::uint64_t{0}, number};
      if (number % 8 == 0) action.words.resize(2);
      break;
    case 1:
      action.kind = Kind::gather;
      action.bytes = body_of(rank, number, length_of(rank, number));
      break;
    case 2:
      action.kind = Kind::broadcast;
      action.bytes = body_of(rank, number, length_of(rank, number));  // only the first member's count
      break;
    default: action.kind = Kind::minimum; action.nap = Duration(1000 + (rank * 7 + static_cast<int>(number)) % 11);
  }
  return action;
}

void expect_result(const ControlResult& result, std::uint64_t number, int rank, const std::vector<int>& members) {
  ASSERT_EQ(result.control, number);
  const bool first = rank == members.front();
  std::uint64_t all = ~std::uint64_t{0};
  std::int64_t nap = 2000;
  for (const int member : members) {
    all &= ~(std::uint64_t{1} << member);
    nap = std::min<std::int64_t>(nap, 1000 + (member * 7 + static_cast<int>(number)) % 11);
  }
  switch (number % 4) {
    case 0:
      ASSERT_EQ(result.words.size(), number % 8 == 0 ? 2u : 3u);
      EXPECT_EQ(result.words[0], all);
      EXPECT_EQ(result.words[1], ~std::uint64_t{0});
      break;
    case 1:
      ASSERT_EQ(result.gathered.size(), first ? members.size() : 0);
      for (std::size_t i = 0; i < result.gathered.size(); ++i) {
        EXPECT_EQ(result.gathered[i], body_of(members[i], number, length_of(members[i], number)));
      }
      break;
    case 2: EXPECT_EQ(result.bytes, body_of(members.front(), number, length_of(members.front(), number))); break;
    default: EXPECT_EQ(result.nap.count(), nap); EXPECT_TRUE(result.words.empty());
  }
}

class Controls : public ::testing::TestWithParam<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Members, Controls,
                         ::testing::Values(std::vector{0}, std::vector{0, 1}, std::vector{0, 1, 2},
                                           std::vector{1, 3, 4}, std::vector{0, 1, 2, 3, 4}, std::vector{2, 5, 6, 7},
                                           std::vector{0, 1, 2, 3, 4, 5, 6}, std::vector{0, 1, 2, 3, 4, 5, 6, 7}));

TEST_P(Controls, EachKindBringsWhatItSaysWhateverTheOrderOfMessages) {
  const std::vector<int> members = GetParam();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ControlJob job(8, members, seed);
    Random random(seed);
    std::vector<std::uint64_t> started(8, 0), taken(8, 0);
    constexpr std::uint64_t kControls = 24;
    // A member may begin up to three before it has the results of the first.
    const std::function<void(int)> go_on = [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      while (const auto result = job.part(rank).take_result()) expect_result(*result, taken[at]++, rank, members);
      const std::uint64_t window = 1 + random.below(3);
      while (started[at] < kControls && started[at] - taken[at] < window) {
        job.part(rank).start(action_of(rank, started[at]));
        ++started[at];
      }
      job.step(rank);
      if (taken[at] < kControls) {
        job.cluster.after(Duration(static_cast<std::int64_t>(random.below(200'000))), rank, [&, rank] { go_on(rank); });
      }
    };
    for (const int rank : members) job.cluster.after(1us, rank, [&, rank] { go_on(rank); });
    job.run();
    for (const int rank : members) {
      EXPECT_EQ(taken[static_cast<std::size_t>(rank)], kControls);
      EXPECT_FALSE(job.part(rank).under_way());
      EXPECT_EQ(job.part(rank).traffic().controls, kControls);
      EXPECT_FALSE(job.failure(rank).failed());
    }
  }
}

TEST(Controls, CountTheMessagesThatTheyTake) {
  ControlJob job(4, {0, 1, 2, 3}, 1);
  for (int rank = 0; rank < 4; ++rank) {
    OrdererAction sync{.kind = Kind::sync, .control = 0};
    sync.words = {7, 8, 9};
    job.part(rank).start(sync);
    job.part(rank).start({.kind = Kind::gather, .control = 1, .bytes = std::vector<std::byte>(10000)});
    job.part(rank).start({.kind = Kind::broadcast, .control = 2, .bytes = std::vector<std::byte>(100)});
  }
  job.run();
  // Two steps of recursive doubling, 24 bytes each; a gather in two pieces; a tree in which rank 0 has two children and
  // rank 2 has one.
  EXPECT_EQ(job.part(0).traffic().messages, 2u + 0u + 2u);
  EXPECT_EQ(job.part(0).traffic().bytes, 48u + 0u + 200u);
  EXPECT_EQ(job.part(1).traffic().messages, 2u + 2u + 0u);
  EXPECT_EQ(job.part(1).traffic().bytes, 48u + 10000u + 0u);
  EXPECT_EQ(job.part(2).traffic().messages, 2u + 2u + 1u);
  EXPECT_EQ(job.part(2).traffic().bytes, 48u + 10000u + 100u);
}

TEST(Controls, SayForWhomTheyWait) {
  ControlJob job(3, {0, 1, 2}, 1);
  job.part(0).start({.kind = Kind::gather, .control = 0});
  job.part(1).start({.kind = Kind::gather, .control = 0});
  job.part(1).start({.kind = Kind::broadcast, .control = 1});
  job.run();
  EXPECT_TRUE(job.part(0).lacks(2));
  EXPECT_FALSE(job.part(0).lacks(1));
  EXPECT_TRUE(job.part(1).lacks(0));
  EXPECT_FALSE(job.part(1).lacks(2));
  job.part(2).start({.kind = Kind::gather, .control = 0});
  job.run();
  EXPECT_FALSE(job.part(0).lacks(2));
  EXPECT_TRUE(job.part(0).take_result().has_value());
}

TEST(Controls, TellAMemberSomethingBesideTheNumberedOnes) {
  ControlJob job(4, {0, 1, 3}, 1);
  const std::vector<std::byte> said(5, std::byte{7}), nothing;
  job.part(3).tell(1, said);  // by member: rank 3 is member 2
  job.part(3).tell(1, nothing);
  job.run();
  EXPECT_FALSE(job.part(0).take_told());
  auto told = job.part(1).take_told();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->member, 2);
  EXPECT_EQ(told->bytes, said);
  told = job.part(1).take_told();
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->bytes.empty());
  EXPECT_FALSE(job.part(1).take_told());
  EXPECT_EQ(job.part(3).traffic().messages, 2u);
  EXPECT_EQ(job.part(3).traffic().bytes, 5u);
  EXPECT_EQ(job.part(3).traffic().controls, 0u);
  EXPECT_FALSE(job.part(1).under_way());
}

TEST(Controls, AMessageFromWhereNoneMayComeFailsTheJobOnEveryRank) {
  ControlJob job(3, {0, 1}, 1);
  // Rank 2 is no member.
  job.engines[2]->send_control(ControlJob::kPart, 0, kControlChannel, 0, 0, {});
  job.run();
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(job.failure(rank).failed());
    EXPECT_EQ(job.failure(rank).error()->code, Errc::bad_input);
    EXPECT_THAT(job.failure(rank).error()->message, ::testing::HasSubstr("rank 2 has sent control message"));
  }
}

TEST(Controls, APieceThatIsTooLongFailsTheJob) {
  ControlJob job(2, {0, 1}, 1);
  const std::byte piece[8] = {};
  job.engines[1]->send_control(ControlJob::kPart, 0, kControlChannel, 0, 7, piece);
  job.run();
  ASSERT_TRUE(job.failure(0).failed());
  EXPECT_THAT(job.failure(0).error()->message, ::testing::HasSubstr("8 bytes of 7"));
}

}  // namespace
}  // namespace stretto
