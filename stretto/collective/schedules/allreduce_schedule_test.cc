#include "stretto/collective/schedules/allreduce_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>

#include "stretto/base/error.h"
#include "stretto/collective/testing/allreduce_algorithms.h"
#include "stretto/collective/testing/schedule_executor.h"
#include "stretto/collective/testing/sizes.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

template <class T>
constexpr DataType type_of() {
  if constexpr (std::is_same_v<T, float>) return DataType::float32;
  if constexpr (std::is_same_v<T, double>) return DataType::float64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DataType::int32;
  return DataType::int64;
}

template <class T>
T apply(ReduceOp op, T lower, T higher) {
  switch (op) {
    case ReduceOp::sum: return lower + higher;
    case ReduceOp::min: return lower < higher ? lower : higher;
    case ReduceOp::max: return lower > higher ? lower : higher;
    case ReduceOp::bit_and:
      if constexpr (std::is_integral_v<T>) return lower & higher;
  }
  return {};
}

/// A rank's contribution; nothing if null.
template <class T>
using Contributions = std::vector<std::optional<std::vector<T>>>;

template <class T>
std::optional<std::vector<T>> combined(ReduceOp op, const std::optional<std::vector<T>>& lower,
                                       const std::optional<std::vector<T>>& higher) {
  if (!lower || !higher) return lower ? lower : higher;
  std::vector<T> out;
  for (std::size_t i = 0; i < lower->size(); ++i) out.push_back(apply(op, (*lower)[i], (*higher)[i]));
  return out;
}

/// Rank after rank.
template <class T>
std::optional<std::vector<T>> in_order(ReduceOp op, const Contributions<T>& all) {
  std::optional<std::vector<T>> sum;
  for (const auto& one : all) sum = combined(op, sum, one);
  return sum;
}

/// As docs/protocol.md says under Bits: fold neighbours until a power of two is left, then neighbours again and again.
template <class T>
std::optional<std::vector<T>> as_tree(ReduceOp op, Contributions<T> level) {
  const std::size_t pairs = level.size() - std::bit_floor(level.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    level[i] = combined(op, level[i], level[i + 1]);
    level.erase(level.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  while (level.size() > 1) {
    Contributions<T> next;
    for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(combined(op, level[i], level[i + 1]));
    level = std::move(next);
  }
  return level.front();
}

struct Shape {
  AllreduceAlgorithm algorithm;
  int ranks;
  DataType type = DataType::float32;
  std::uint64_t count = 0;
  ReduceOp op = ReduceOp::sum;
  bool headers = true;
  std::uint64_t piece_bytes = 256 << 10;
};

constexpr BufferId kX = 0, kSum = 1;

std::vector<Schedule> schedules_of(const Shape& shape) {
  std::vector<Schedule> out;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ScheduleBuilder b("allreduce", rank, shape.ranks);
    b.buffer("x", shape.type, shape.count);
    b.buffer("sum", shape.type, shape.count);
    const OpId ready = b.call(0, {});
    b.label(ready, "ready");
    const AllreducePlan plan = append_allreduce(b,
                                                {.algorithm = shape.algorithm,
                                                 .contribution = kX,
                                                 .result = kSum,
                                                 .op = shape.op,
                                                 .first_channel = 5,
                                                 .headers = shape.headers,
                                                 .piece_bytes = shape.piece_bytes},
                                                ready);
    out.push_back(b.build(plan.done));
    EXPECT_LE(out.back().num_channels(), 5 + plan.num_channels);
  }
  return out;
}

template <class T>
std::vector<std::uint64_t> bits_of(const std::vector<T>& values) {
  std::vector<std::uint64_t> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&out[i], &values[i], sizeof(T));
  return out;
}

/// Runs a round and checks all but the values of the sum: completion, that ranks agree to the bit, that contributions
/// are untouched, headers. Returns the sum.
template <class T>
std::optional<std::vector<T>> run(const Shape& shape, const Contributions<T>& all, std::uint64_t seed) {
  const auto schedules = schedules_of(shape);
  validate(schedules);
  ScheduleExecutor executor(schedules, seed);
  RoundHeader expected(shape.ranks);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto& mine = all[static_cast<std::size_t>(rank)];
    executor.give<T>(rank, kX, mine ? &*mine : nullptr);
    executor.give<T>(rank, kSum, nullptr);
    if (!shape.headers) continue;
    RoundHeader& header = executor.header(rank, kX);
    if (rank % 3 == 1) header.arrived.insert(rank);
    if (mine) {
      header.fresh.insert(rank);
      header.batches = static_cast<std::uint64_t>(rank) + 1;
      header.times.push_back({.rank = static_cast<std::uint16_t>(rank), .computed = static_cast<float>(rank)});
    }
    expected.merge(header);
  }
  executor.run();

  std::optional<std::vector<T>> sum;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto where = text(name_of(shape.algorithm), ", ", shape.ranks, " ranks, ", shape.count, ' ',
                            name_of(shape.type), ", ", name_of(shape.op), ", seed ", seed, ", rank ", rank);
    EXPECT_TRUE(executor.complete(rank)) << where;
    if (executor.present(rank, kX)) {
      EXPECT_EQ(bits_of(executor.template read<T>(rank, kX)), bits_of(*all[static_cast<std::size_t>(rank)])) << where;
    }
    if (shape.headers) {
      EXPECT_EQ(executor.header(rank, kSum), expected) << where;
    }
    if (shape.count == 0) continue;  // empty or not is the same
    std::optional<std::vector<T>> mine;
    if (executor.present(rank, kSum)) mine = executor.template read<T>(rank, kSum);
    if (rank == 0) sum = mine;
    EXPECT_EQ(mine.has_value(), sum.has_value()) << where;
    if (mine && sum) {
      EXPECT_EQ(bits_of(*mine), bits_of(*sum)) << where;
    }
  }
  return sum;
}

/// Small whole numbers, exact in every type; about a third of the ranks may bring nothing.
template <class T>
Contributions<T> whole_numbers(Random& random, int ranks, std::uint64_t count, double null_chance) {
  Contributions<T> out;
  for (int rank = 0; rank < ranks; ++rank) {
    out.emplace_back();
    if (random.chance(null_chance)) continue;
    auto& values = out.back().emplace();
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(random.between(-1000, 1000)));
  }
  return out;
}

class Allreduce : public ::testing::TestWithParam<std::tuple<AllreduceAlgorithm, int>> {
 protected:
  AllreduceAlgorithm algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  std::vector<std::uint64_t> counts() const {
    const auto p = static_cast<std::uint64_t>(ranks());
    return {1, 2, 3, p - 1 + (p == 1), p, p + 1, 97};
  }

  template <class T>
  void check_against_a_plain_sum(ReduceOp op) {
    std::uint64_t seed = 0;
    for (const std::uint64_t count : counts()) {
      for (const double null_chance : {0.0, 0.5, 1.0}) {
        for (const bool headers : {true, false}) {
          Random random(++seed, static_cast<std::uint64_t>(ranks()));
          const auto all = whole_numbers<T>(random, ranks(), count, null_chance);
          for (const std::uint64_t piece_bytes : {4096, 40}) {
            const Shape shape{algorithm(), ranks(), type_of<T>(), count, op, headers, piece_bytes};
            EXPECT_EQ(run(shape, all, seed), in_order(op, all))
                << name_of(algorithm()) << ", " << ranks() << " ranks, " << count << " elements in pieces of "
                << piece_bytes << " B, seed " << seed;
          }
        }
      }
    }
  }
};

TEST_P(Allreduce, SumsFloat32) {
  check_against_a_plain_sum<float>(ReduceOp::sum);
}
TEST_P(Allreduce, SumsInt64) {
  check_against_a_plain_sum<std::int64_t>(ReduceOp::sum);
}
TEST_P(Allreduce, MinimumOfInt32) {
  check_against_a_plain_sum<std::int32_t>(ReduceOp::min);
}
TEST_P(Allreduce, MaximumOfFloat64) {
  check_against_a_plain_sum<double>(ReduceOp::max);
}

TEST_P(Allreduce, BitwiseAndOfInt64) {
  check_against_a_plain_sum<std::int64_t>(ReduceOp::bit_and);
}

TEST_P(Allreduce, OfNothingAtAllCompletes) {
  const Contributions<float> all(static_cast<std::size_t>(ranks()), std::vector<float>{});
  for (const bool headers : {true, false}) {
    run(Shape{algorithm(), ranks(), DataType::float32, 0, ReduceOp::sum, headers}, all, 1);
  }
}

class FixedOrderAllreduce : public Allreduce {};

/// Numbers of very different size, so that every order of summation shows in the bits.
TEST_P(FixedOrderAllreduce, OfFloatsHasTheBitsOfTheTree) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    auto all = whole_numbers<float>(random, ranks(), 97, seed % 2 == 0 ? 0.0 : 0.3);
    for (auto& one : all) {
      if (one) {
        for (float& value : *one) value *= std::exp(static_cast<float>(random.between(-20, 20)));
      }
    }
    const auto sum =
        run({.algorithm = algorithm(), .ranks = ranks(), .count = 97, .piece_bytes = std::uint64_t{64} << seed % 3},
            all, seed);
    const auto expected = as_tree(ReduceOp::sum, all);
    ASSERT_EQ(sum.has_value(), expected.has_value());
    if (sum) {
      EXPECT_EQ(bits_of(*sum), bits_of(*expected)) << "seed " << seed;
    }
  }
}

TEST_P(FixedOrderAllreduce, OfZerosAndNansHasTheBitsOfTheTree) {
  const auto nan = [](std::uint32_t payload) { return std::bit_cast<float>(0x7fc00000u | payload); };
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Random random(seed);
      Contributions<float> all;
      for (int rank = 0; rank < ranks(); ++rank) {
        auto& values = all.emplace_back().emplace();
        for (int i = 0; i < 97; ++i) {
          const float kinds[] = {0.0f, -0.0f, nan(static_cast<std::uint32_t>(rank)), 1.0f, -1.0f};
          values.push_back(kinds[random.below(i < 48 ? 2 : 5)]);
        }
      }
      const auto sum = run(Shape{algorithm(), ranks(), DataType::float32, 97, op}, all, seed);
      ASSERT_TRUE(sum.has_value());
      EXPECT_EQ(bits_of(*sum), bits_of(*as_tree(op, all))) << name_of(op) << ", seed " << seed;
    }
  }
}

TEST_P(Allreduce, ManyOrdersOfEventsAgree) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed, 5);
    const auto count = random.log_uniform(1, 64);
    const auto all = whole_numbers<std::int64_t>(random, ranks(), count, random.uniform());
    const Shape shape{
        algorithm(), ranks(), DataType::int64, count, ReduceOp::sum, random.chance(0.5), random.log_uniform(8, 1024)};
    EXPECT_EQ(run(shape, all, seed), in_order(ReduceOp::sum, all)) << "seed " << seed;
  }
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<AllreduceAlgorithm, int>>& info) {
  return text(name_of(std::get<0>(info.param)), '_', std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, Allreduce,
                         ::testing::Combine(::testing::ValuesIn(kAlgorithms), ::testing::ValuesIn(kSizes)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(All, FixedOrderAllreduce,
                         ::testing::Combine(::testing::Values(AllreduceAlgorithm::recursive_doubling,
                                                              AllreduceAlgorithm::halving_doubling),
                                            ::testing::ValuesIn(kSizes)),
                         name_of_case);

TEST(AllreduceCost, IsAsDocumented) {
  const auto sent = [](AllreduceAlgorithm algorithm, int ranks, int rank) {
    const auto schedules = schedules_of({algorithm, ranks, DataType::float32, 1024});
    ScheduleExecutor executor(schedules, 1);
    const std::vector<float> x(1024, 1.0f);
    for (int r = 0; r < ranks; ++r) executor.give(r, kX, &x);
    executor.run();
    return std::pair(executor.messages_sent(rank), executor.bytes_sent(rank));
  };
  const std::uint64_t n = 4096;
  EXPECT_EQ(sent(AllreduceAlgorithm::recursive_doubling, 8, 3), std::pair(3, 3 * n));
  EXPECT_EQ(sent(AllreduceAlgorithm::halving_doubling, 8, 3), std::pair(6, 2 * n * 7 / 8));
  EXPECT_EQ(sent(AllreduceAlgorithm::direct, 8, 3), std::pair(14, 2 * n * 7 / 8));
  EXPECT_EQ(sent(AllreduceAlgorithm::halving_doubling, 9, 0), std::pair(7, 2 * n * 7 / 8 + n)) << "it unfolds rank 1";
  EXPECT_EQ(sent(AllreduceAlgorithm::halving_doubling, 9, 1), std::pair(1, n));
}

TEST(HalvingDoubling, LetsNoPieceWaitForAnother) {
  for (const int ranks : {2, 3, 4, 7, 8}) {
    for (const Schedule& schedule : schedules_of(
             {.algorithm = AllreduceAlgorithm::halving_doubling, .ranks = ranks, .count = 97, .piece_bytes = 100})) {
      const auto before = predecessors_of(schedule);
      std::vector<std::set<int>> waits_for(schedule.ops().size());
      for (OpId id = 0; id < schedule.ops().size(); ++id) {
        const Op& op = schedule.op(id);
        for (const OpId earlier : before[id])
          waits_for[id].insert(waits_for[earlier].begin(), waits_for[earlier].end());
        if (op.kind == OpKind::send || op.kind == OpKind::recv) waits_for[id].insert((op.channel - 5) / 2);
        if (id != schedule.completion()) {
          EXPECT_LE(waits_for[id].size(), 1u) << describe(schedule, id);
        }
      }
      EXPECT_EQ(waits_for[schedule.completion()], (std::set{0, 1, 2})) << "388 bytes";
    }
  }
}

TEST(AllreduceSpec, RefusesBuffersThatDoNotFit) {
  ScheduleBuilder b("allreduce", 0, 2);
  const BufferId x = b.buffer("x", DataType::float32, 4), longer = b.buffer("longer", DataType::float32, 5),
                 ints = b.buffer("ints", DataType::int32, 4);
  const auto append = [&](BufferId from, BufferId to) {
    return append_allreduce(b, {.contribution = from, .result = to}, kNoOp);
  };
  EXPECT_THROW(append(x, longer), UsageError);
  EXPECT_THROW(append(x, ints), UsageError);
  EXPECT_THROW(append(x, x), UsageError);
  EXPECT_THROW(append(x, kNoBuffer), UsageError);
}

}  // namespace
}  // namespace stretto
