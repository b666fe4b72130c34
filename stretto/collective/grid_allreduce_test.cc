// The rounds of a grid's lines over real engines, with models that are residues: sums and means are exact.

#include "stretto/collective/grid_allreduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/collective/schedules/part.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/kernel/mix.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

const std::vector<BucketSpec> kGridModel{{DataType::int64, 13}, {DataType::int64, 4}};

std::int64_t residue(__int128 number) {
  const auto rest = static_cast<std::int64_t>(number % kMixPrime);
  return rest < 0 ? rest + kMixPrime : rest;
}

std::int64_t inverse(std::int64_t number) {  // by Fermat
  std::int64_t power = 1, base = residue(number);
  for (std::int64_t exponent = kMixPrime - 2; exponent > 0; exponent >>= 1) {
    if (exponent % 2 != 0) power = residue(static_cast<__int128>(power) * base);
    base = residue(static_cast<__int128>(base) * base);
  }
  return power;
}

/// A node's model, with α = 1 / `divisor`.
class Model {
 public:
  explicit Model(std::int64_t divisor = 2) : alpha_(inverse(divisor)) {
    for (const BucketSpec& bucket : kGridModel) numbers_.emplace_back(bucket.count);
  }
  void step(std::int64_t by) {
    for (auto& bucket : numbers_) {
      for (std::size_t i = 0; i < bucket.size(); ++i) bucket[i] = residue(bucket[i] + by + static_cast<int>(i));
    }
  }
  void apply(const GridSlice& slice) {
    if (slice.brought == nullptr) return;
    const auto* sum = reinterpret_cast<const std::int64_t*>(slice.sum);
    const auto* brought = reinterpret_cast<const std::int64_t*>(slice.brought);
    const std::int64_t share = inverse(slice.members);
    for (std::uint64_t i = 0; i < slice.count; ++i) {
      const std::int64_t mean = residue(static_cast<__int128>(residue(sum[i])) * share);
      std::int64_t& number = numbers_[slice.bucket][slice.offset + i];
      number = residue(number + static_cast<__int128>(alpha_) * residue(mean - brought[i]));
    }
  }
  void publish(GridAllreduce& grid) const {
    Contribution& copy = grid.acquire();
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      std::ranges::copy(numbers_[i], copy.as<std::int64_t>(int(i)).begin());
    grid.publish(&copy);
  }
  const std::vector<std::vector<std::int64_t>>& numbers() const { return numbers_; }

 private:
  std::vector<std::vector<std::int64_t>> numbers_;
  std::int64_t alpha_;
};

struct GridCase {
  int ranks;
  LineOptions line;
  int dimensions = 2;
};

/// The account that a node gives of itself once all rounds have ended.
void expect_counts(const GridAllreduce& grid, const GridCase& of, const Traffic& traffic) {
  std::uint64_t bytes = 0;
  for (int dimension = 0; dimension < of.dimensions; ++dimension) {
    const GridCounts counts = grid.counts(dimension);
    bytes += counts.bytes_sent;
    EXPECT_EQ(counts.abandoned, 0u);
    EXPECT_LE(counts.completed + counts.forced, counts.opened);
    EXPECT_EQ(counts.contributed, counts.applied) << "with carry";
    EXPECT_LE(counts.applied, counts.completed + counts.forced);
    EXPECT_LE(counts.late, counts.missing);
    EXPECT_EQ(counts.seconds_to_apply() > 0, counts.applied > 0);
    if (of.line.reduce < 1) continue;
    EXPECT_EQ(counts.missing, 0u) << "a line whose thresholds are 1 waits for all";
    EXPECT_EQ(counts.forced + counts.skipped, 0u);
  }
  EXPECT_EQ(bytes, traffic.body_bytes);
}

/// Every node makes steps of its own while lines average, and then none, until all that was contributed is applied. The
/// sum of all models is that of all steps. Returns how many contributions were missing.
std::uint64_t expect_conserved(const GridCase& of, std::uint64_t seed) {
  constexpr int kSteps = 60;
  std::vector<Model> models(static_cast<std::size_t>(of.ranks));
  std::vector<std::int64_t> steps(static_cast<std::size_t>(of.ranks));
  std::atomic<int> at_rest = 0, taken = 0;
  std::atomic<std::uint64_t> missing = 0;
  std::barrier<> all(of.ranks);
  run_thread_job(of.ranks, [&](Engine& engine) {
    GridAllreduce grid(engine, kGridModel, {.grid = {.dimensions = of.dimensions}, .line = of.line});
    EngineDriver driver(engine, {.spin = 0ns});
    const auto me = static_cast<std::size_t>(engine.rank());
    Model& model = models[me];
    Random random(seed, me);
    const auto take = [&] { taken += grid.take([&](const GridSlice& slice) { model.apply(slice); }); };
    for (int step = 0; step < kSteps; ++step) {
      const auto by = static_cast<std::int64_t>(random.below(1000));
      model.step(by);
      steps[me] += by;
      take();
      model.publish(grid);
      driver.wait([] { return false; }, driver.deadline(Duration(random.below(me == 1 ? 2'000'000 : 200'000))));
    }
    bool counted = false;
    for (const TimePoint end = driver.deadline(60s); at_rest < of.ranks && driver.clock().now() < end;) {
      take();
      grid.publish(nullptr);
      if (!counted && grid.has_given(grid.version())) counted = true, ++at_rest;
      driver.wait([] { return false; }, driver.deadline(100us));
    }
    EXPECT_FALSE(grid.failure());
    EXPECT_EQ(at_rest, of.ranks);
    EXPECT_TRUE(grid.stop(driver, driver.deadline(20s)));
    EXPECT_LE(grid.num_models(), of.dimensions + 2);  // each ring has room for all that is ever behind
    EXPECT_LE(grid.num_results(), 3);
    expect_counts(grid, of, engine.traffic());
    for (int dimension = 0; dimension < of.dimensions; ++dimension) missing += grid.counts(dimension).missing;
    all.arrive_and_wait();
    return true;
  });
  for (std::size_t bucket = 0; bucket < kGridModel.size(); ++bucket) {
    for (std::size_t i = 0; i < kGridModel[bucket].count; ++i) {
      std::int64_t sum = 0;
      for (const Model& model : models) sum = residue(sum + model.numbers()[bucket][i]);
      const std::int64_t made = std::accumulate(steps.begin(), steps.end(), std::int64_t{0});
      EXPECT_EQ(sum, residue(made + static_cast<std::int64_t>(i) * kSteps * of.ranks)) << "bucket " << bucket;
    }
  }
  EXPECT_GE(taken, of.ranks) << "rounds that brought something";
  return missing;
}

TEST(GridAllreduceTest, TheSumOfAllModelsMovesByStepsAlone) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    expect_conserved({.ranks = 4, .line = {}}, seed);
    expect_conserved({.ranks = 5, .line = {}}, seed);  // of which one has a column of its own
    expect_conserved({.ranks = 6, .line = {}}, seed);
    expect_conserved({.ranks = 5, .line = {}, .dimensions = 1}, seed);
    expect_conserved({.ranks = 8, .line = {}, .dimensions = 3}, seed);
  }
}

TEST(GridAllreduceTest, AlsoWhereContributionsAreMissing) {
  // Every slice arrives everywhere, and some without the models of nodes that are late.
  const LineOptions line{.reduce = 0.5, .patience = 50us};
  std::uint64_t missing = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    missing += expect_conserved({.ranks = 5, .line = line, .dimensions = 1}, seed);
    missing += expect_conserved({.ranks = 9, .line = line}, seed);
    missing += expect_conserved({.ranks = 10, .line = {.reduce = 0.7}, .dimensions = 1}, seed);  // up to three of ten
  }
  EXPECT_GT(missing, 0u);
}

/// Nodes publish a model each, and nothing more. Calls `then` once the node has taken a round of each line.
void after_one_round_each(int ranks, int dimensions, std::int64_t divisor,
                          const std::function<void(const Engine&, const GridAllreduce&, const Model&)>& then) {
  std::barrier<> all(ranks);
  run_thread_job(ranks, [&](Engine& engine) {
    GridAllreduce grid(engine, kGridModel, {.grid = {.dimensions = dimensions}, .line = {}});
    Model model(divisor);
    model.step(std::int64_t{1} << engine.rank());
    model.publish(grid);
    all.arrive_and_wait();  // nothing has been sent yet
    EngineDriver driver(engine, {.spin = 0ns});
    int taken = 0;
    for (const TimePoint end = driver.deadline(60s); taken < dimensions && driver.clock().now() < end;) {
      taken += grid.take([&](const GridSlice& slice) { model.apply(slice); });
      grid.publish(nullptr);
      driver.wait([] { return false; }, driver.deadline(100us));
    }
    EXPECT_EQ(taken, dimensions);
    all.arrive_and_wait();
    EXPECT_TRUE(grid.stop(driver, driver.deadline(20s)));
    then(engine, grid, model);
    all.arrive_and_wait();
    return true;
  });
}

TEST(GridAllreduceTest, OneLineWithAnAlphaOfOneAveragesModels) {
  after_one_round_each(5, 1, 1, [](const Engine&, const GridAllreduce&, const Model& model) {
    const std::int64_t mean = residue(static_cast<__int128>(31) * inverse(5));  // of 1, 2, 4, 8, 16
    for (const auto& bucket : model.numbers()) {
      for (std::size_t i = 0; i < bucket.size(); ++i) EXPECT_EQ(bucket[i], residue(mean + static_cast<int>(i)));
    }
  });
}

TEST(GridAllreduceTest, ASetOfRoundsSendsAllButItsOwnShareTwiceADimension) {
  // Of 17 numbers in two buckets: the others' slices of this node's model, and its own slice's mean to each of them.
  const auto expect_bytes = [](int dimensions, int nodes) {
    return [dimensions, nodes](const Engine& engine, const GridAllreduce&, const Model&) {
      std::uint64_t numbers = 0;
      for (int dimension = 0; dimension < dimensions; ++dimension) {
        const GridLayout layout(engine.size(), {.dimensions = dimensions});
        const int me = layout.digits(engine.rank())[static_cast<std::size_t>(dimension)];
        for (const BucketSpec& bucket : kGridModel) {
          const std::uint64_t own = part(bucket.count, me, nodes).count();
          numbers += bucket.count - own + static_cast<std::uint64_t>(nodes - 1) * own;
        }
      }
      EXPECT_EQ(engine.traffic().body_bytes, 8 * numbers);
    };
  };
  after_one_round_each(4, 2, 2, expect_bytes(2, 2));
  after_one_round_each(9, 2, 2, expect_bytes(2, 3));
  after_one_round_each(8, 3, 2, expect_bytes(3, 2));
}

/// Thresholds of half of a line of four.
constexpr LineOptions kHalf{.reduce = 0.5, .complete = 0.5, .advance = 0.5};
/// What a busy machine may have stopped in the middle of a message, in each direction: any other node of it.
constexpr int kHeldByOthers = 2 * 3;

/// The application of rank 3 computes until the others have had ten rounds: a line whose thresholds are half of it goes
/// on without.
TEST(GridAllreduceTest, ALineGoesOnWithoutANodeThatComputes) {
  std::atomic<int> with_ten = 0;
  run_thread_job(4, [&](Engine& engine) {
    GridAllreduce grid(engine, kGridModel, {.grid = {.dimensions = 1}, .line = kHalf});
    EngineDriver driver(engine, {.spin = 0ns});
    Model model;
    int rounds = 0;
    bool counted = false;
    const TimePoint end = driver.deadline(60s);
    model.publish(grid);
    while (with_ten < 3 && driver.clock().now() < end) {
      if (engine.rank() == 3) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      rounds += grid.take([&](const GridSlice& slice) { model.apply(slice); });
      model.publish(grid);
      if (rounds >= 10 && !counted) counted = true, ++with_ten;
      driver.wait([] { return false; }, driver.deadline(100us));
    }
    EXPECT_EQ(with_ten, 3);
    EXPECT_LE(grid.num_results(), 3 + kHeldByOthers);
    EXPECT_TRUE(grid.stop(driver, driver.deadline(20s)));
    return true;
  });
}

/// Rank 3 stands still until the others have had thousands of rounds, and the rings to it are full for long. Then it
/// wakes, and takes part again.
void expect_bounded_memory(const LineOptions& line, int most_models, int most_results) {
  constexpr std::uint64_t kRounds = 2000;
  const std::vector<BucketSpec> buckets{{DataType::int64, 16'000}};
  std::atomic<int> there = 0;
  std::atomic<bool> woke = false;
  run_thread_job(4, [&](Engine& engine) {
    GridAllreduce grid(engine, buckets, {.grid = {.dimensions = 1}, .line = line});
    const Clock& clock = engine.clock();
    const TimePoint end = clock.now() + 300s;
    if (engine.rank() == 3) {
      while (there < 3 && clock.now() < end) std::this_thread::sleep_for(1ms);
    }
    EngineDriver driver(engine, {.spin = 0ns});
    const auto step = [&] {
      (void)grid.take([](const GridSlice&) {});
      Contribution& model = grid.acquire();
      std::ranges::fill(model.as<std::int64_t>(0), 1);
      grid.publish(&model, 1);
      driver.wait([] { return false; }, driver.deadline(10us));
    };
    const auto expect_bounded = [&] {
      EXPECT_LE(grid.num_models(), most_models);
      EXPECT_LE(grid.num_results(), most_results);
    };
    const auto counts = [&] { return grid.counts(0); };
    if (engine.rank() != 3) {
      while (counts().applied < kRounds && clock.now() < end) step();
      EXPECT_GE(counts().applied, kRounds);
      EXPECT_GT(counts().missing, kRounds / 2);
      expect_bounded();
      const std::uint64_t sent = engine.traffic().messages, opened = counts().opened;
      EXPECT_LE(sent, 2 * 3 * opened + 1000) << "START, a contribution and a mean to two, and to rank 3 no more";
      ++there;
      while (!woke && clock.now() < end) step();
    } else {
      while (counts().contributed < 10 && clock.now() < end) step();
      EXPECT_GE(counts().contributed, 10u);
      EXPECT_GT(counts().fresh, 10u);
      woke = true;
    }
    expect_bounded();
    EXPECT_TRUE(grid.stop(driver, driver.deadline(60s)));
    return true;
  });
}

TEST(GridAllreduceTest, ALineGoesOnInBoundedMemoryWhileANodeHasStopped) {
  expect_bounded_memory(kHalf, 1 + 2 + kHeldByOthers, 3 + kHeldByOthers);
}

TEST(GridAllreduceTest, AlsoWithRoundsInFlight) {
  LineOptions line = kHalf;
  line.update = ElasticUpdate::paper;
  line.rounds_in_flight = 2;
  expect_bounded_memory(line, 2 + 2 + 2 * kHeldByOthers, 6 * 2 + 2 * kHeldByOthers);
}

/// Node r's model is 2^r throughout. Rank 3 stands still once it has been in a few rounds: its last slice stays in all.
TEST(GridAllreduceTest, APreviousSliceStandsInForAMissingOne) {
  std::atomic<int> there = 0;
  run_thread_job(4, [&](Engine& engine) {
    const LineOptions line{.reduce = 0.75,
                           .complete = 0.75,
                           .advance = 0.75,
                           .missing = Missing::previous,
                           .update = ElasticUpdate::paper};
    GridAllreduce grid(engine, kGridModel, {.grid = {.dimensions = 1}, .line = line});
    EngineDriver driver(engine, {.progress_by = ProgressBy::application, .spin = 0ns});
    const TimePoint end = driver.deadline(60s);
    std::uint64_t whole = 0;  // slices with all models
    const auto step = [&] {
      (void)grid.take([&](const GridSlice& slice) {
        const auto* sum = reinterpret_cast<const std::int64_t*>(slice.sum);
        if (slice.members == 4) ++whole;
        for (std::uint64_t i = 0; i < slice.count; ++i) {
          EXPECT_EQ(std::popcount(static_cast<std::uint64_t>(sum[i])), slice.members);
          EXPECT_EQ(sum[i], sum[0]) << "a slice has the same nodes throughout";
        }
      });
      Contribution& model = grid.acquire();
      for (int b = 0; b < 2; ++b) std::ranges::fill(model.as<std::int64_t>(b), std::int64_t{1} << engine.rank());
      grid.publish(&model, 1);
      driver.wait([] { return false; }, driver.deadline(20us));
    };
    if (engine.rank() == 3) {
      while (grid.counts(0).applied < 20 && driver.clock().now() < end) step();
      while (there < 3 && driver.clock().now() < end) std::this_thread::sleep_for(1ms);
    } else {
      while (grid.counts(0).previous < 100 && driver.clock().now() < end) step();
      const GridCounts counts = grid.counts(0);
      EXPECT_GE(counts.previous, 100u);
      EXPECT_LE(counts.previous, counts.missing);
      EXPECT_GE(whole, 100u);
      ++there;
      while (there < 3 && driver.clock().now() < end) step();
    }
    EXPECT_GT(grid.memory_bytes(), 0u);
    EXPECT_TRUE(grid.stop(driver, driver.deadline(60s)));
    return true;
  });
}

double most_apart(const std::vector<std::vector<float>>& models) {
  float most = 0;
  for (const auto& model : models) {
    for (std::size_t i = 0; i < model.size(); ++i) most = std::max(most, std::abs(model[i] - models[0][i]));
  }
  return static_cast<double>(most);
}

struct Sent {
  std::uint64_t rounds = 0, bytes = 0, late = 0;  // of all nodes
};

/// Nodes whose models of float32 are `apart` average them, and make small steps at first. Then they come to consensus,
/// to rounding.
Sent expect_consensus(int ranks, LineOptions line, std::size_t numbers, double apart, double zeros) {
  constexpr int kSteps = 40;
  constexpr double kRounding = 2e-6;
  std::mutex mutex;
  std::vector<std::vector<float>> shown(static_cast<std::size_t>(ranks), std::vector<float>(numbers));  // by mutex
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> rounds = 0, bytes = 0, late = 0;
  std::barrier<> all(ranks);
  run_thread_job(ranks, [&](Engine& engine) {
    GridAllreduce grid(engine, {{DataType::float32, numbers}}, {.grid = {.dimensions = 1}, .line = line});
    EngineDriver driver(engine, {.spin = 0ns});
    const auto me = static_cast<std::size_t>(engine.rank());
    Random shared(7), random(8, me);
    std::vector<float> model;
    for (std::size_t i = 0; i < numbers; ++i) {
      model.push_back(shared.chance(zeros) ? 0 : static_cast<float>(apart * random.normal() + 1));
    }
    const auto exchange = [&] {
      (void)grid.take([&](const GridSlice& slice) {
        if (slice.brought == nullptr) return;
        const auto* sum = reinterpret_cast<const float*>(slice.sum);
        const auto* brought = reinterpret_cast<const float*>(slice.brought);
        for (std::uint64_t i = 0; i < slice.count; ++i) {
          model[slice.offset + i] += 0.5f * (sum[i] / static_cast<float>(slice.members) - brought[i]);
        }
      });
      Contribution& copy = grid.acquire();
      std::ranges::copy(model, copy.as<float>(0).begin());
      grid.publish(&copy, 1);
      driver.wait([] { return false; }, driver.deadline(Duration(random.below(me == 1 ? 400'000 : 100'000))));
    };
    for (int step = 0; step < kSteps; ++step) {
      for (float& number : model) number += number == 0 ? 0 : static_cast<float>(1e-3 * random.normal());
      exchange();
    }
    all.arrive_and_wait();
    for (const TimePoint end = driver.deadline(60s); !done && driver.clock().now() < end;) {
      exchange();
      const std::lock_guard lock(mutex);
      shown[me] = model;
      if (most_apart(shown) <= kRounding) done = true;
    }
    EXPECT_TRUE(done);
    EXPECT_FALSE(grid.failure());
    EXPECT_TRUE(grid.stop(driver, driver.deadline(20s)));
    EXPECT_EQ(grid.counts(0).bytes_sent, engine.traffic().body_bytes);
    all.arrive_and_wait();
    rounds += grid.counts(0).opened;
    bytes += grid.counts(0).bytes_sent;
    late += grid.counts(0).late;
    return true;
  });
  return {rounds, bytes, late};
}

TEST(GridAllreduceTest, DifferencesOfAByteComeToConsensusThoughSlicesAreLate) {
  LineOptions line{.reduce = 0.5, .patience = 100us, .compression = Compression::int8};
  std::uint64_t late = 0;
  for (const double share : {1.0, 0.6}) {
    line.reduce = share;
    for (const int ranks : {3, 5}) {
      const Sent here = expect_consensus(ranks, line, 2000, 1, 0);
      const double whole = 2.0 * (ranks - 1) / ranks * 2000 * sizeof(float);
      EXPECT_LE(static_cast<double>(here.bytes), 0.35 * whole * static_cast<double>(here.rounds))
          << "the first one is whole";
      late += here.late;
    }
  }
  EXPECT_GT(late, 0u);
}

TEST(GridAllreduceTest, ZerosAreLeftOut) {
  const LineOptions line{.compression = Compression::zeros};
  const Sent here = expect_consensus(4, line, 40'000, 1, 0.9);
  const double whole = 2.0 * 3 / 4 * 40'000 * sizeof(float);
  EXPECT_LE(static_cast<double>(here.bytes), 0.14 * whole * static_cast<double>(here.rounds));
}

TEST(GridAllreduceTest, RefusesWhatDoesNotFit) {
  run_thread_job(4, [](Engine& engine) {
    const auto make = [&](const std::vector<BucketSpec>& model, const GridAllreduceOptions& options) {
      return [&engine, model, options] { GridAllreduce(engine, model, options); };
    };
    using testing::HasSubstr;
    EXPECT_THAT(make(kGridModel, {.grid = {.dimensions = 3}, .line = {}}), testing::Throws<UsageError>());
    EXPECT_THAT(make(kGridModel, {.grid = {}, .line = {.reduce = 0}}),
                testing::ThrowsMessage<UsageError>(HasSubstr("0")));
    EXPECT_THAT(make({{DataType::float32, 1}}, {.grid = {}, .line = {}}), testing::Throws<UsageError>());
    EXPECT_THAT(make(kGridModel, {.grid = {}, .line = {.compression = Compression::int8}}),
                testing::ThrowsMessage<UsageError>(HasSubstr("compression int8 of int64: expected float32")));
    return true;
  });
}

}  // namespace
}  // namespace stretto
