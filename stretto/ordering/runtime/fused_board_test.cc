#include "stretto/ordering/runtime/fused_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/engine/blocks.h"
#include "stretto/kernel/combination.h"
#include "stretto/kernel/combine.h"

namespace stretto {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// So small that most buffers are of several chunks, and most chunks of several pieces.
constexpr FusedBoard::Shape kSmall{.slots = 3, .chunk_bytes = 512, .piece_bytes = 128};

/// A buffer of some tensors, of which each member brings all, some or none.
struct Drawn {
  Drawn(std::uint64_t seed, SequenceNumber number) {
    Random random(seed, number);
    for (std::uint64_t i = random.below(4); i > 0; --i) counts.push_back(random.log_uniform(1, 400) - 1);
    nulls = random.chance(0.4);
  }
  std::uint64_t count() const { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }
  bool brings(int member, std::size_t tensor) const {
    return !nulls || (static_cast<std::size_t>(member) + tensor) % 3 != 0;
  }
  bool brings_any(int member) const {
    for (std::size_t t = 0; t < counts.size(); ++t) {
      if (brings(member, t)) return true;
    }
    return false;
  }
  std::vector<std::uint64_t> counts;  // of each tensor
  bool nulls = false;
};

/// The boards of all members over one memory.
struct Boards {
  explicit Boards(std::vector<int> members, int ranks, bool one_at_a_time = true) : ranks(ranks) {
    const std::uint64_t bytes = FusedBoard::bytes_needed(kSmall, ProcessSet(1, members, 0), ranks);
    memory = Block(bytes);
    std::fill_n(memory.data(), bytes, std::byte{0});
    for (const int rank : members) {
      all.push_back(std::make_unique<FusedBoard>(
          std::span(memory.data(), bytes), kSmall, ProcessSet(1, members, rank), ranks, [](int) {},
          [this](const Error& error) { errors.push_back(error); }, std::as_writable_bytes(std::span(lent)),
          one_at_a_time));
    }
  }
  int ranks;
  Block memory;

  /// Two of three rounds of which a member brings all come from where the others see it.
  void lend(FusedRound& round, int member) {
    const bool brings_all =
        std::ranges::all_of(round.parts, [](const FusedPart& part) { return part.mine != nullptr; });
    const bool has_one_sum = round.sum != nullptr || round.parts.size() == 1;
    if (round.count == 0 || !brings_all || !has_one_sum ||
        (static_cast<SequenceNumber>(member) + round.number) % 3 == 0) {
      return;
    }
    std::byte* to = lent_by(member, round.number).data();
    FusedPart whole{to, round.parts.front().sum, 0};
    for (const FusedPart& part : round.parts) {
      std::memcpy(to + whole.bytes, part.mine, part.bytes);
      whole.bytes += part.bytes;
    }
    round.parts = {whole};
    ++lends;
  }
  /// Members that bring all of a round would read its sum in one place; in every third round one of them in another.
  void share(FusedRound& round, const Drawn& drawn, int member) {
    if (drawn.nulls || round.number % 4 == 3) return;
    round.shared_sum = lent_by(kMembers, round.number).data();
    if (round.number % 3 == 0 && member == 0) round.shared_sum += 64;
  }
  bool shares(SequenceNumber number, const Drawn& drawn, std::size_t members) const {
    return drawn.count() > 0 && !drawn.nulls && number % 4 != 3 && (number % 3 != 0 || members == 1);
  }
  const float* shared_sum(SequenceNumber number) {
    return reinterpret_cast<const float*>(lent_by(kMembers, number).data() + (number % 3 == 0 ? 64 : 0));
  }
  static constexpr int kMembers = 8;  // at most

  /// The round is over here: nobody reads what its rank has lent.
  void take_back(int member, SequenceNumber number) { std::ranges::fill(lent_by(member, number), std::byte{0xff}); }
  std::span<std::byte> lent_by(int member, SequenceNumber number) {
    constexpr std::size_t kRoom = 2048;  // floats, more than a round has
    return std::as_writable_bytes(
        std::span(lent).subspan((static_cast<std::size_t>(member) * 4 + number % 4) * kRoom, kRoom));
  }
  std::vector<float> lent = std::vector<float>((kMembers + 1) * 4 * 2048);
  std::atomic<int> lends{0};  // rounds
  std::vector<std::unique_ptr<FusedBoard>> all;
  std::vector<Error> errors;
};

float drawn_float(int member, SequenceNumber number, std::size_t tensor, std::uint64_t i) {
  Random random(static_cast<std::uint64_t>(member) * 100 + tensor, number * 1000 + i);
  return static_cast<float>(std::ldexp(random.normal(), static_cast<int>(random.between(-9, 9))));
}

/// What one member holds of a buffer.
struct Held {
  std::vector<std::vector<float>> mine, sums;
  std::vector<float> together;
};

FusedRound round_of(const Drawn& drawn, SequenceNumber number, int member, int ranks, Held& held, bool in_place) {
  FusedRound round{
      .number = number, .sequence_hash = number * 31, .count = drawn.count(), .header = RoundHeader(ranks)};
  round.brings = drawn.brings_any(member);
  if (round.brings) round.header.fresh.insert(member);
  for (std::size_t t = 0; t < drawn.counts.size(); ++t) {
    auto& mine = held.mine.emplace_back(drawn.counts[t]);
    for (std::uint64_t i = 0; i < mine.size(); ++i) mine[i] = drawn_float(member, number, t, i);
    auto& sums = held.sums.emplace_back(drawn.counts[t], -77.0f);
    const auto* from = drawn.brings(member, t) ? reinterpret_cast<const std::byte*>(mine.data()) : nullptr;
    round.parts.push_back({from, reinterpret_cast<std::byte*>(sums.data()), mine.size() * sizeof(float)});
  }
  held.together.assign(drawn.count() + 1, -77.0f);
  if (!in_place) round.sum = reinterpret_cast<std::byte*>(held.together.data());
  return round;
}

/// The sum of a tensor by the fixed tree, over the members that bring a part of the buffer; what one of them does not
/// bring changes nothing.
std::vector<float> expected_sum(const Drawn& drawn, SequenceNumber number, std::size_t tensor, int members) {
  std::vector<int> bringing;
  std::vector<std::vector<float>> inputs;
  std::vector<const std::byte*> sources;
  for (int member = 0; member < members; ++member) {
    if (!drawn.brings_any(member)) continue;
    bringing.push_back(member);
    auto& input = inputs.emplace_back(drawn.counts[tensor], -0.0f);
    for (std::uint64_t i = 0; i < input.size() && drawn.brings(member, tensor); ++i) {
      input[i] = drawn_float(member, number, tensor, i);
    }
  }
  for (const auto& input : inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  std::vector<float> sum(drawn.counts[tensor]);
  if (sources.empty()) return sum;
  combine(fixed_tree(members, bringing), DataType::float32, ReduceOp::sum, reinterpret_cast<std::byte*>(sum.data()),
          sources, sum.size());
  return sum;
}

void expect_result(Boards& boards, const FusedResult& result, const Drawn& drawn, SequenceNumber number, int members,
                   const Held& held, bool in_place) {
  ASSERT_EQ(result.number, number);
  std::vector<int> bringing;
  for (int member = 0; member < members; ++member) {
    if (drawn.brings_any(member)) bringing.push_back(member);
  }
  EXPECT_EQ(result.header.fresh.members(), bringing);
  ASSERT_EQ(result.present, !bringing.empty() && drawn.count() > 0);
  EXPECT_EQ(held.together.back(), -77.0f);
  ASSERT_EQ(result.shared, boards.shares(number, drawn, boards.all.size())) << number;
  std::uint64_t at = 0;
  for (std::size_t t = 0; t < drawn.counts.size() && result.present; ++t) {
    const auto expected = expected_sum(drawn, number, t, members);
    const float* sums = in_place ? held.sums[t].data() : held.together.data() + at;
    if (result.shared) {
      for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(sums[i], -77.0f) << "a copy";
      sums = boards.shared_sum(number) + at;
    }
    ASSERT_EQ(std::memcmp(sums, expected.data(), expected.size() * sizeof(float)), 0) << number << ", tensor " << t;
    at += expected.size();
  }
}

class FusedBoards : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Members, FusedBoards, ::testing::Values(1, 2, 3, 4, 5, 7, 8));

TEST_P(FusedBoards, SumWhateverTheOrderOfTheMembersSteps) {
  const int members = GetParam();
  std::vector<int> ranks(static_cast<std::size_t>(members));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Boards boards(ranks, members);
    Random random(seed);
    constexpr SequenceNumber kBuffers = 12;
    std::vector<std::vector<Held>> held(ranks.size(), std::vector<Held>(kBuffers));
    std::vector<SequenceNumber> begun(ranks.size(), 0), over(ranks.size(), 0);
    std::uint64_t idle = 0;
    const auto in_place = [&](SequenceNumber number) { return (number + seed) % 2 == 0; };
    while (std::ranges::any_of(over, [&](SequenceNumber n) { return n < kBuffers; })) {
      const std::size_t m = random.below(ranks.size());
      const int member = static_cast<int>(m);
      bool did = false;
      if (begun[m] < kBuffers && begun[m] - over[m] < 4 && random.chance(0.3)) {
        const SequenceNumber number = begun[m]++;
        FusedRound round = round_of(Drawn(seed, number), number, member, members, held[m][number], in_place(number));
        boards.share(round, Drawn(seed, number), member);
        boards.lend(round, member);
        boards.all[m]->start(std::move(round));
        did = true;
      }
      did |= boards.all[m]->step();
      while (const auto result = boards.all[m]->take_result()) {
        const SequenceNumber number = over[m]++;
        boards.take_back(member, number);
        expect_result(boards, *result, Drawn(seed, number), number, members, held[m][number], in_place(number));
      }
      idle = did ? 0 : idle + 1;
      ASSERT_LT(idle, 10'000u) << "nothing moves";
    }
    EXPECT_TRUE(boards.errors.empty());
    EXPECT_GT(boards.lends, 0);
  }
}

TEST_P(FusedBoards, SumInThreads) {
  const int members = GetParam();
  std::vector<int> ranks(static_cast<std::size_t>(members));
  std::iota(ranks.begin(), ranks.end(), 0);
  Boards boards(ranks, members, false);
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      FusedBoard& board = *boards.all[static_cast<std::size_t>(member)];
      constexpr SequenceNumber kBuffers = 100;
      std::vector<Held> held(kBuffers);
      for (SequenceNumber begun = 0, over = 0; over < kBuffers;) {
        if (begun < kBuffers && begun - over < 4) {
          FusedRound round = round_of(Drawn(3, begun), begun, member, members, held[begun], begun % 2 == 0);
          boards.share(round, Drawn(3, begun), member);
          boards.lend(round, member);
          board.start(std::move(round));
          ++begun;
        }
        if (!board.step()) std::this_thread::yield();
        while (const auto result = board.take_result()) {
          boards.take_back(member, over);
          expect_result(boards, *result, Drawn(3, over), over, members, held[over], over % 2 == 0);
          ++over;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(boards.lends, 0);
}

TEST(FusedBoards, BuffersThatDifferAreNamedOnEveryMember) {
  Boards boards({0, 2, 3}, 4);
  Held held[3];
  for (int member = 0; member < 3; ++member) {
    Drawn drawn(1, 1);
    FusedRound round = round_of(drawn, 0, member, 4, held[member], true);
    round.sequence_hash = member == 1 ? 5 : 6;
    round.composition = std::make_shared<const std::string>(member == 1 ? "a\nb\n" : "a\nc\n");
    boards.all[static_cast<std::size_t>(member)]->start(std::move(round));
  }
  for (int i = 0; i < 30; ++i) (void)boards.all[static_cast<std::size_t>(i % 3)]->step();
  ASSERT_EQ(boards.errors.size(), 3u);
  for (const Error& error : boards.errors) {
    EXPECT_EQ(error.code, Errc::bad_input);
    EXPECT_THAT(error.message, HasSubstr("set 1: buffer 0 is not the same on every rank: at place 1 rank 0 has c, rank "
                                         "2 has b"));
  }
}

TEST(FusedBoards, SayForWhomTheyWait) {
  Boards boards({0, 1, 2}, 3);
  Held held[3];
  for (const int member : {0, 2}) {
    boards.all[static_cast<std::size_t>(member)]->start(round_of(Drawn(1, 0), 0, member, 3, held[member], true));
    while (boards.all[static_cast<std::size_t>(member)]->step()) {
    }
  }
  EXPECT_TRUE(boards.all[0]->lacks(1));
  EXPECT_FALSE(boards.all[0]->lacks(2));
  EXPECT_FALSE(boards.all[0]->lacks(0));
  EXPECT_FALSE(boards.all[1]->lacks(0)) << "it has not come itself";
}

}  // namespace
}  // namespace stretto
