#include "stretto/collective/base/agreement.h"

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
using AgreementJob = PartJob<Agreement>;

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

void begin(Agreement& part, int rank, std::uint64_t number) {
  switch (number % 4) {
    case 0: {
      std::vector<std::uint64_t> words{~(std::uint64_t{1} << rank), ~std::uint64_t{0}, number};
      if (number % 8 == 0) words.resize(2);
      return part.reduce(words, ReduceOp::bit_and);
    }
    case 1: return part.gather(body_of(rank, number, length_of(rank, number)));
    case 2: return part.broadcast(body_of(rank, number, length_of(rank, number)));  // only the first member's count
    default:
      return part.reduce({static_cast<std::uint64_t>(1000 + (rank * 7 + static_cast<int>(number)) % 11)},
                         ReduceOp::min);
  }
}

void expect_outcome(const Agreement::Outcome& outcome, std::uint64_t number, int rank,
                    const std::vector<int>& members) {
  ASSERT_EQ(outcome.number, number);
  const bool first = rank == members.front();
  std::uint64_t all = ~std::uint64_t{0}, least = 2000;
  for (const int member : members) {
    all &= ~(std::uint64_t{1} << member);
    least =
        std::min<std::uint64_t>(least, 1000 + static_cast<std::uint64_t>(member * 7 + static_cast<int>(number)) % 11);
  }
  switch (number % 4) {
    case 0:
      ASSERT_EQ(outcome.words.size(), number % 8 == 0 ? 2u : 3u);
      EXPECT_EQ(outcome.words[0], all);
      EXPECT_EQ(outcome.words[1], ~std::uint64_t{0});
      break;
    case 1:
      ASSERT_EQ(outcome.gathered.size(), first ? members.size() : 0);
      for (std::size_t i = 0; i < outcome.gathered.size(); ++i) {
        EXPECT_EQ(outcome.gathered[i], body_of(members[i], number, length_of(members[i], number)));
      }
      break;
    case 2: EXPECT_EQ(outcome.bytes, body_of(members.front(), number, length_of(members.front(), number))); break;
    default: EXPECT_EQ(outcome.words, std::vector{least});
  }
}

class Agreements : public ::testing::TestWithParam<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Members, Agreements,
                         ::testing::Values(std::vector{0}, std::vector{0, 1}, std::vector{0, 1, 2},
                                           std::vector{1, 3, 4}, std::vector{0, 1, 2, 3, 4}, std::vector{2, 5, 6, 7},
                                           std::vector{0, 1, 2, 3, 4, 5, 6}, std::vector{0, 1, 2, 3, 4, 5, 6, 7}));

TEST_P(Agreements, EachKindBringsWhatItSaysWhateverTheOrderOfMessages) {
  const std::vector<int> members = GetParam();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    AgreementJob job(8, members, seed);
    Random random(seed);
    std::vector<std::uint64_t> started(8, 0), taken(8, 0);
    constexpr std::uint64_t kNumbers = 24;
    // A member may begin up to three before it has the results of the first.
    const std::function<void(int)> go_on = [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      while (const auto outcome = job.part(rank).take()) expect_outcome(*outcome, taken[at]++, rank, members);
      const std::uint64_t window = 1 + random.below(3);
      while (started[at] < kNumbers && started[at] - taken[at] < window) {
        begin(job.part(rank), rank, started[at]);
        ++started[at];
      }
      job.step(rank);
      if (taken[at] < kNumbers) {
        job.cluster.after(Duration(static_cast<std::int64_t>(random.below(200'000))), rank, [&, rank] { go_on(rank); });
      }
    };
    for (const int rank : members) job.cluster.after(1us, rank, [&, rank] { go_on(rank); });
    job.run();
    for (const int rank : members) {
      EXPECT_EQ(taken[static_cast<std::size_t>(rank)], kNumbers);
      EXPECT_FALSE(job.part(rank).under_way());
      EXPECT_EQ(job.part(rank).traffic().begun, kNumbers);
      EXPECT_FALSE(job.failure(rank).failed());
    }
  }
}

TEST(Agreements, CountTheMessagesThatTheyTake) {
  AgreementJob job(4, {0, 1, 2, 3}, 1);
  for (int rank = 0; rank < 4; ++rank) {
    job.part(rank).reduce({7, 8, 9}, ReduceOp::bit_and);
    job.part(rank).gather(std::vector<std::byte>(10000));
    job.part(rank).broadcast(std::vector<std::byte>(100));
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

TEST(Agreements, SayForWhomTheyWait) {
  AgreementJob job(3, {0, 1, 2}, 1);
  job.part(0).gather({});
  job.part(1).gather({});
  job.part(1).broadcast({});
  job.run();
  EXPECT_TRUE(job.part(0).lacks(2));
  EXPECT_FALSE(job.part(0).lacks(1));
  EXPECT_TRUE(job.part(1).lacks(0));
  EXPECT_FALSE(job.part(1).lacks(2));
  job.part(2).gather({});
  job.run();
  EXPECT_FALSE(job.part(0).lacks(2));
  EXPECT_TRUE(job.part(0).take().has_value());
}

TEST(Agreements, TellAMemberSomethingBesideTheNumberedOnes) {
  AgreementJob job(4, {0, 1, 3}, 1);
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
  EXPECT_EQ(job.part(3).traffic().begun, 0u);
  EXPECT_FALSE(job.part(1).under_way());
}

TEST(Agreements, AMessageFromWhereNoneMayComeFailsTheJobOnEveryRank) {
  AgreementJob job(3, {0, 1}, 1);
  // Rank 2 is no member.
  job.engines[2]->send_control(AgreementJob::kPart, 0, kControlChannel, 0, 0, {});
  job.run();
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(job.failure(rank).failed());
    EXPECT_EQ(job.failure(rank).error()->code, Errc::bad_input);
    EXPECT_THAT(job.failure(rank).error()->message, ::testing::HasSubstr("rank 2 has sent control message"));
  }
}

TEST(Agreements, APieceThatIsTooLongFailsTheJob) {
  AgreementJob job(2, {0, 1}, 1);
  const std::byte piece[8] = {};
  job.engines[1]->send_control(AgreementJob::kPart, 0, kControlChannel, 0, 7, piece);
  job.run();
  ASSERT_TRUE(job.failure(0).failed());
  EXPECT_THAT(job.failure(0).error()->message, ::testing::HasSubstr("8 bytes of 7"));
}

}  // namespace
}  // namespace stretto
