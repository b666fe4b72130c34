#include "stretto/kernel/compress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "stretto/base/random.h"

namespace stretto {
namespace {

template <class T>
std::span<const std::byte> seen(const std::vector<T>& numbers) {
  return std::as_bytes(std::span(numbers));
}

/// So many numbers, of which a share is 0.
template <class T>
std::vector<T> sparse(std::uint64_t seed, std::size_t count, double zeros) {
  Random random(seed);
  std::vector<T> out(count);
  for (T& number : out) {
    if (!random.chance(zeros)) number = static_cast<T>(1 + random.below(30000));
  }
  return out;
}

/// Bytes of the short form, 0 where there is none; expects it to become the same bits again.
template <class T>
std::size_t coded_bytes(const std::vector<T>& numbers) {
  std::vector<std::byte> coded(numbers.size() * sizeof(T));
  coded.resize(leave_zeros_out(sizeof(T), seen(numbers), coded.data()));
  if (coded.empty()) return 0;
  std::vector<T> back(numbers.size(), T{77});
  EXPECT_TRUE(put_zeros_back(sizeof(T), coded, std::as_writable_bytes(std::span(back))));
  EXPECT_EQ(std::memcmp(back.data(), numbers.data(), numbers.size() * sizeof(T)), 0);
  for (const std::size_t cut : {std::size_t{1}, coded.size() / 2}) {
    EXPECT_FALSE(
        put_zeros_back(sizeof(T), std::span(coded).first(coded.size() - cut), std::as_writable_bytes(std::span(back))));
  }
  coded.push_back({});
  EXPECT_FALSE(put_zeros_back(sizeof(T), coded, std::as_writable_bytes(std::span(back))));
  return coded.size() - 1;
}

TEST(ZerosLeftOut, GiveTheSameBitsBackForAnySizeAndShare) {
  for (const std::size_t count : {0u, 1u, 2u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 20000u}) {
    for (const double zeros : {0.0, 0.3, 0.5, 0.9, 1.0}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        (void)coded_bytes(sparse<float>(seed, count, zeros));
        (void)coded_bytes(sparse<double>(seed, count, zeros));
        (void)coded_bytes(sparse<std::uint16_t>(seed, count, zeros));
      }
    }
  }
}

TEST(ZerosLeftOut, KeepWhatIsNoZero) {
  std::vector<float> numbers(5000);
  numbers[3] = -0.0f;
  numbers[70] = std::numeric_limits<float>::quiet_NaN();
  numbers[4100] = -std::numeric_limits<float>::infinity();
  numbers[4999] = std::numeric_limits<float>::denorm_min();
  EXPECT_GT(coded_bytes(numbers), 0u);
}

TEST(ZerosLeftOut, TakeASeventhOfAModelOfNineTenthsZeros) {
  const std::size_t count = 1 << 18;
  EXPECT_LE(static_cast<double>(coded_bytes(sparse<float>(1, count, 0.9))), 0.14 * 4 * count);
  const std::size_t half = coded_bytes(sparse<float>(1, count, 0.5));
  EXPECT_NEAR(static_cast<double>(half), (0.5 + 1.0 / 32) * 4 * count, 0.01 * 4 * count);
  EXPECT_EQ(coded_bytes(sparse<float>(1, count, 0.35)), 0u) << "below 40 %";
  EXPECT_EQ(coded_bytes(sparse<float>(1, count, 0)), 0u);
}

TEST(ZerosLeftOut, AreThoseOfTheirChunkAlone) {
  std::vector<float> numbers = sparse<float>(1, 3 * 4096, 0);
  std::fill_n(numbers.begin() + 4096, 4096, 0.0f);
  EXPECT_EQ(coded_bytes(numbers), (2 * 4096 + 128) * sizeof(float) + 3 * sizeof(std::uint32_t));
}

TEST(ZerosLeftOut, RefuseWhatNamesOtherElements) {
  const std::vector<float> numbers = sparse<float>(1, 64, 0.9);
  std::vector<std::byte> coded(64 * sizeof(float));
  coded.resize(leave_zeros_out(sizeof(float), seen(numbers), coded.data()));
  std::vector<float> back(64);
  for (std::size_t bit = 0; bit < (sizeof(std::uint32_t) + sizeof(std::uint64_t)) * 8; ++bit) {
    std::vector<std::byte> damaged = coded;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(put_zeros_back(sizeof(float), damaged, std::as_writable_bytes(std::span(back)))) << bit;
  }
}

std::vector<float> normal(std::uint64_t seed, std::size_t count, double scale = 1) {
  Random random(seed);
  std::vector<float> out(count);
  for (float& number : out) number = static_cast<float>(scale * random.normal());
  return out;
}

TEST(Difference, BringsBothSidesToTheSameBitsNearTheNumbers) {
  for (const std::size_t count : {0u, 1u, 255u, 256u, 257u, 5000u}) {
    const std::vector<float> numbers = normal(1, count);
    std::vector<float> here = normal(2, count), there = here;
    double before = 8;
    for (int round = 0; round < 6; ++round) {
      std::vector<std::byte> coded(difference_bytes(count));
      ASSERT_TRUE(take_difference(numbers, here, coded.data()));
      ASSERT_TRUE(add_difference(coded, there));
      EXPECT_EQ(here, there) << count;
      double off = 0;
      for (std::size_t i = 0; i < count; ++i) off = std::max(off, std::abs(static_cast<double>(numbers[i] - here[i])));
      EXPECT_LE(off, std::max(before / 250, 1e-6)) << count;
      before = off;
    }
    EXPECT_LE(before, 1e-6) << "rounding of float32";
  }
}

TEST(Difference, OfEqualNumbersChangesNothing) {
  const std::vector<float> numbers = normal(1, 300);
  std::vector<float> known = numbers;
  std::vector<std::byte> coded(difference_bytes(300));
  EXPECT_TRUE(take_difference(numbers, known, coded.data()));
  EXPECT_EQ(known, numbers);
}

TEST(Difference, OfTheSmallestNumbersStaysBelowThem) {
  const std::vector<float> numbers(256, 3 * std::numeric_limits<float>::denorm_min());
  std::vector<float> known(256);
  std::vector<std::byte> coded(difference_bytes(256));
  EXPECT_TRUE(take_difference(numbers, known, coded.data()));
  for (const float number : known) EXPECT_LE(number, numbers.front());
}

TEST(Difference, IsNoneWhereADistanceIsInfiniteOrNan) {
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> numbers = normal(1, 600);
    numbers[599] = odd;
    std::vector<float> known(600);
    std::vector<std::byte> coded(difference_bytes(600));
    EXPECT_FALSE(take_difference(numbers, known, coded.data()));
    std::swap(numbers, known);
    EXPECT_FALSE(take_difference(numbers, known, coded.data()));
  }
  std::vector<float> known(1, -std::numeric_limits<float>::max());
  std::byte coded[difference_bytes(1)];
  EXPECT_FALSE(take_difference(std::vector<float>(1, std::numeric_limits<float>::max()), known, coded));
}

TEST(Difference, OfAnotherSizeIsRefused) {
  std::vector<float> known(300);
  EXPECT_FALSE(add_difference(std::vector<std::byte>(difference_bytes(301)), known));
  EXPECT_LE(difference_bytes(1 << 20), (1 << 20) * sizeof(float) * 27 / 100);
}

struct Consensus {
  double apart = 0;  // models from the first one, at most
  double off = 0;    // that one from the mean of what there was and of all steps since
};

/// Four rows and four columns of nodes that start at random, and average with α = 0.5 in each; for as many rounds each
/// node makes a small step, and then none. `send(link, numbers)` is what arrives of a model or a mean.
template <class Send>
Consensus consensus_after(int rounds, Send send) {
  constexpr std::size_t kSide = 4, kNumbers = 512;
  std::vector<std::vector<float>> models;
  std::vector<double> truth(kNumbers);
  for (std::uint64_t node = 0; node < kSide * kSide; ++node) {
    models.push_back(normal(node + 1, kNumbers));
    for (std::size_t i = 0; i < kNumbers; ++i) truth[i] += static_cast<double>(models[node][i]) / (kSide * kSide);
  }
  for (int round = 0; round < 2 * rounds; ++round) {
    for (std::size_t node = 0; round < rounds && node < models.size(); ++node) {
      const std::vector<float> step = normal(node * 1000 + static_cast<std::uint64_t>(round), kNumbers, 1e-3);
      for (std::size_t i = 0; i < kNumbers; ++i) {
        models[node][i] += step[i] + 1e-3f;
        truth[i] += static_cast<double>(step[i] + 1e-3f) / static_cast<double>(models.size());
      }
    }
    for (std::size_t line = 0; line < 2 * kSide; ++line) {
      const auto node = [line](std::size_t i) { return line < kSide ? line * kSide + i : i * kSide + line - kSide; };
      std::vector<float> mean(kNumbers);
      for (std::size_t n = 0; n < kSide; ++n) {
        const std::vector<float> came = send(line * (kSide + 1) + n, models[node(n)]);
        for (std::size_t i = 0; i < kNumbers; ++i) mean[i] += came[i] / kSide;
      }
      mean = send(line * (kSide + 1) + kSide, mean);
      for (std::size_t n = 0; n < kSide; ++n) {
        for (std::size_t i = 0; i < kNumbers; ++i) models[node(n)][i] += 0.5f * (mean[i] - models[node(n)][i]);
      }
    }
  }
  Consensus out;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const auto first = static_cast<double>(models[0][i]);
    for (const auto& model : models) out.apart = std::max(out.apart, std::abs(static_cast<double>(model[i]) - first));
    out.off = std::max(out.off, std::abs(first - truth[i]));
  }
  return out;
}

TEST(Difference, ComesToConsensusAndKeepsStepsThatPlainRoundingLoses) {
  const auto rounded = [](const std::vector<float>& numbers, std::vector<float>& known) {
    std::vector<std::byte> coded(difference_bytes(numbers.size()));
    EXPECT_TRUE(take_difference(numbers, known, coded.data()));
    return known;
  };
  const Consensus exact = consensus_after(60, [](std::size_t, const auto& numbers) { return numbers; });
  std::vector<std::vector<float>> known(40);
  const Consensus by_difference = consensus_after(60, [&](std::size_t link, const auto& numbers) {
    if (known[link].empty()) return known[link] = numbers;
    return rounded(numbers, known[link]);
  });
  const Consensus plain = consensus_after(60, [&](std::size_t, const auto& numbers) {
    std::vector<float> nothing(numbers.size());
    return rounded(numbers, nothing);
  });
  EXPECT_LE(exact.apart, 1e-6);
  EXPECT_LE(by_difference.apart, 1e-6);
  EXPECT_LE(exact.off, 1e-6);
  EXPECT_LE(by_difference.off, 5e-3) << "of models that were 1 apart";
  EXPECT_GE(plain.off, 5e-2) << "of 6e-2 that all nodes have gone in steps of 1e-3";
}

}  // namespace
}  // namespace stretto
