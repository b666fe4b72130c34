#include "stretto/train/evaluation/evaluator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

#include "stretto/base/random.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

ModelCopy numbered(std::uint64_t number) {
  ModelCopy copy{.batches = number, .weights = {std::vector<std::byte>(sizeof(number))}};
  std::memcpy(copy.weights[0].data(), &number, sizeof(number));
  return copy;
}

std::uint64_t number_in(const ModelCopy& copy) {
  std::uint64_t number = 0;
  std::memcpy(&number, copy.weights[0].data(), sizeof(number));
  return number;
}

void pause(Random& random) {
  for (std::uint64_t i = random.below(4); i > 0; --i) std::this_thread::yield();
}

TEST(CopyQueue, KeepsTheOrderAndLeavesNothingOut) {
  constexpr std::uint64_t kCopies = 20'000;
  CopyQueue queue;
  std::atomic<std::uint64_t> put{0};
  std::thread trains([&] {
    Random random(1);
    for (std::uint64_t number = 1; number <= kCopies; ++number) {
      ModelCopy copy = numbered(number);
      while (!queue.put(copy, 10s)) continue;
      put = number;
      pause(random);
    }
    queue.close();
  });
  Random random(2);
  std::uint64_t taken = 0;
  while (const auto copy = queue.take()) {
    EXPECT_EQ(copy->batches, ++taken);
    EXPECT_EQ(number_in(*copy), taken);
    EXPECT_LE(put, taken + 1) << "this one is being evaluated, and one waits";
    pause(random);
  }
  trains.join();
  EXPECT_EQ(taken, kCopies);
}

TEST(CopyQueue, LetsOneWaitAndNoMore) {
  CopyQueue queue;
  ModelCopy first = numbered(1), second = numbered(2);
  EXPECT_TRUE(queue.put(first, 0s));
  EXPECT_FALSE(queue.put(second, 1ms));
  EXPECT_EQ(number_in(second), 2u) << "it is still the caller's";
  EXPECT_EQ(queue.take()->batches, 1u);
  EXPECT_TRUE(queue.put(second, 0s));
  EXPECT_EQ(queue.take()->batches, 2u);
}

TEST(CopyQueue, ClosedItGivesWhatIsLeftAndTakesNoMore) {
  CopyQueue queue;
  ModelCopy first = numbered(1), second = numbered(2);
  EXPECT_TRUE(queue.put(first, 0s));
  queue.close();
  EXPECT_TRUE(queue.put(second, 0s));
  EXPECT_EQ(queue.take()->batches, 1u);
  EXPECT_FALSE(queue.take().has_value());
}

TEST(CopyQueue, AbandonedItWakesBothSidesAndHasNothing) {
  CopyQueue queue;
  ModelCopy first = numbered(1);
  EXPECT_TRUE(queue.put(first, 0s));
  std::thread trains([&] {
    ModelCopy second = numbered(2);
    while (!queue.put(second, 10s)) continue;
  });
  queue.abandon();
  trains.join();
  EXPECT_FALSE(queue.take().has_value());
}

TEST(CopyQueue, WakesTheThreadThatWaitsForACopyWhenItIsClosed) {
  CopyQueue queue;
  std::thread evaluates([&] { EXPECT_FALSE(queue.take().has_value()); });
  queue.close();
  evaluates.join();
}

using Weights = std::vector<std::vector<std::byte>>;

// A model of one weight, which is its training loss in tenths; 255 is no number.
ModelCopy model(int weight, std::uint64_t batches) {
  return {.seconds = static_cast<double>(batches) / 2,
          .batches = batches,
          .average = batches % 2 == 0,
          .weights = {{static_cast<std::byte>(weight)}}};
}

Scores score(const Weights& weights) {
  const auto weight = static_cast<int>(weights[0][0]);
  const double loss = weight == 255 ? std::numeric_limits<double>::quiet_NaN() : weight / 10.0;
  return {.test = {.loss = loss + 1, .accuracy = 0.5}, .training = {.loss = loss, .top5 = 0.75}};
}

void put(Evaluator& evaluator, ModelCopy copy) {
  while (!evaluator.put(copy, 10s)) continue;
}

TEST(Evaluator, ScoresEveryCopyInOrderAndKeepsTheFirstOfTheBest) {
  Evaluator evaluator([] { return score; }, true);
  const std::vector<int> weights = {255, 9, 7, 8, 3, 200, 3, 5};
  for (std::size_t i = 0; i < weights.size(); ++i) put(evaluator, model(weights[i], i));
  const Evaluator::Results results = evaluator.finish();
  ASSERT_EQ(results.points.size(), weights.size());
  for (std::size_t i = 1; i < weights.size(); ++i) {
    const EvaluationPoint& point = results.points[i];
    EXPECT_EQ(point.batches, i);
    EXPECT_EQ(point.seconds, static_cast<double>(i) / 2);
    EXPECT_EQ(point.average, i % 2 == 0);
    EXPECT_EQ(point.training.loss, weights[i] / 10.0);
    EXPECT_EQ(point.training.top5, 0.75);
    EXPECT_EQ(point.test.loss, weights[i] / 10.0 + 1);
    EXPECT_EQ(point.test.accuracy, 0.5);
  }
  EXPECT_EQ(results.lowest, 0.3);
  ASSERT_TRUE(results.best);
  EXPECT_EQ(results.best->batches, 4u);
  EXPECT_EQ(results.best->weights, model(3, 4).weights);
}

TEST(Evaluator, KeepsNoneUnlessToldAndNoneThatIsNoNumber) {
  Evaluator keeps_none([] { return score; }, false);
  put(keeps_none, model(1, 1));
  EXPECT_FALSE(keeps_none.finish().best);
  Evaluator nothing_to_keep([] { return score; }, true);
  put(nothing_to_keep, model(255, 1));
  EXPECT_FALSE(nothing_to_keep.finish().best);
  Evaluator unused([]() -> Score { throw std::logic_error("nobody asked for it"); }, true);
  EXPECT_TRUE(unused.finish().points.empty());
}

TEST(Evaluator, AFailureNamesTheCopyAndBlocksNobody) {
  Evaluator evaluator(
      []() -> Score { return [](const Weights&) -> Scores { throw std::runtime_error("no space\nstack of it"); }; },
      false);
  for (const std::uint64_t batches : {40, 50, 60, 70}) put(evaluator, model(1, batches));
  try {
    evaluator.finish();
    FAIL() << "no failure";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "evaluation after 40 batches: no space");
  }
}

TEST(Evaluator, HoldsTheCopyUnderWayAndOneMore) {
  std::atomic<int> begun{0};
  std::atomic<bool> go_on{false};
  const auto slow = [&](const Weights& weights) {
    ++begun;
    while (!go_on) std::this_thread::yield();
    return score(weights);
  };
  Evaluator evaluator([&] { return slow; }, false);
  put(evaluator, model(1, 1));
  while (begun == 0) std::this_thread::yield();
  ModelCopy second = model(2, 2), third = model(3, 3);
  ASSERT_TRUE(evaluator.put(second, 10s));
  EXPECT_FALSE(evaluator.put(third, 1ms));
  EXPECT_EQ(begun, 1);
  go_on = true;
  put(evaluator, std::move(third));
  EXPECT_EQ(evaluator.finish().points.size(), 3u);
}

TEST(Evaluator, GoneBeforeItsTimeItLeavesNothingRunning) {
  std::atomic<int> begun{0}, ended{0};
  const auto noted = [&](const Weights& weights) {
    ++begun;
    std::this_thread::yield();
    ++ended;
    return score(weights);
  };
  {
    Evaluator evaluator([&] { return noted; }, false);
    put(evaluator, model(1, 1));
    while (begun == 0) std::this_thread::yield();
    put(evaluator, model(2, 2));
  }
  EXPECT_EQ(begun, ended);
  EXPECT_GE(ended, 1);
}

}  // namespace

}  // namespace stretto
