#include "workloads/hyperplane_data.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace stretto {

namespace {

TEST(MappedMemory, IsZeroedAndWritable) {
  auto memory = MappedMemory::allocate(1 << 20, "test");
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  EXPECT_EQ(memory->bytes().size(), std::size_t{1} << 20);
  EXPECT_TRUE(std::ranges::all_of(memory->bytes(), [](std::byte b) { return b == std::byte{0}; }));
  memory->bytes()[12345] = std::byte{7};
  const MappedMemory moved = std::move(*memory);
  EXPECT_EQ(moved.bytes()[12345], std::byte{7});
}

TEST(MappedMemory, TooMuchIsRefusedWithBothSizes) {
  const auto memory = MappedMemory::allocate(std::size_t{1} << 60, "hyperplane with many points");
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, Errc::unavailable);
  EXPECT_THAT(memory.error().message,
              testing::MatchesRegex("hyperplane with many points needs 1.0 EiB of memory, and .* are left .*"));
}

TEST(MappedMemory, ForkedProcessReadsItAndMustNotWrite) {
  auto memory = MappedMemory::allocate(4096, "test");
  ASSERT_TRUE(memory.ok());
  memory->bytes()[0] = std::byte{42};
  memory->make_read_only();
  const pid_t child = fork();
  if (child == 0) _exit(memory->bytes()[0] == std::byte{42} ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_DEATH(memory->bytes()[0] = std::byte{1}, "");
}

std::shared_ptr<const HyperplaneDataset> generate(std::uint64_t seed, std::uint32_t points) {
  DatasetOptions options;
  options.seed = seed;
  options.hyperplane_points = points;
  return std::dynamic_pointer_cast<const HyperplaneDataset>(load_dataset("hyperplane", options).or_throw());
}

std::vector<float> point(const HyperplaneDataset& data, Split split, std::uint32_t i) {
  std::vector<float> x(HyperplaneDataset::kDimensions);
  data.copy_point(split, i, x.data());
  return x;
}

TEST(Hyperplane, HasTheSizesThatWereAskedFor) {
  const auto data = generate(1, 100);
  EXPECT_EQ(data->num_train(), 100u);
  EXPECT_EQ(data->num_test(), HyperplaneDataset::kTestPoints);
  EXPECT_EQ(data->lengths(), std::vector<std::uint32_t>(100, 1));
  const std::vector<std::uint32_t> batch{3, 1, 4};
  EXPECT_EQ(data->units(batch), 3u);
}

TEST(Hyperplane, CoordinatesHaveMeanZeroAndVarianceOne) {
  const auto data = generate(7, 64);
  double sum = 0, squares = 0;
  for (std::uint32_t i = 0; i < 64; ++i) {
    for (const float x : point(*data, Split::train, i)) {
      sum += x;
      squares += static_cast<double>(x) * x;
    }
  }
  const double count = 64.0 * HyperplaneDataset::kDimensions;
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 / std::sqrt(count));
}

TEST(Hyperplane, TargetsAreTheCoefficientsTimesThePointAndNoise) {
  const auto data = generate(3, 1000);
  ASSERT_EQ(data->coefficients().size(), HyperplaneDataset::kDimensions);
  for (const Split split : {Split::train, Split::test}) {
    double sum = 0, squares = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const std::vector<float> x = point(*data, split, i);
      double exact = 0;
      for (std::size_t d = 0; d < x.size(); ++d) exact += data->coefficients()[d] * x[d];
      const double noise = data->target(split, i) - exact;
      sum += noise;
      squares += noise * noise;
    }
    const double deviation = HyperplaneDataset::kNoise;
    EXPECT_NEAR(sum / 1000, 0, 5 * deviation / std::sqrt(1000.0));
    EXPECT_NEAR(squares / 1000 / (deviation * deviation), 1, 5 * std::sqrt(2 / 1000.0));
  }
}

TEST(Hyperplane, IsAFunctionOfTheSeedWhateverTheNumberOfPoints) {
  const auto small = generate(5, 10), large = generate(5, 20), other = generate(6, 10);
  for (const std::uint32_t i : {0U, 9U}) {
    EXPECT_EQ(point(*small, Split::train, i), point(*large, Split::train, i));
    EXPECT_EQ(small->target(Split::train, i), large->target(Split::train, i));
    EXPECT_EQ(point(*small, Split::test, i), point(*large, Split::test, i));
    EXPECT_EQ(small->target(Split::test, i), large->target(Split::test, i));
    EXPECT_NE(point(*small, Split::train, i), point(*other, Split::train, i));
    EXPECT_NE(point(*small, Split::train, i), point(*small, Split::test, i));
  }
}

}  // namespace

}  // namespace stretto
