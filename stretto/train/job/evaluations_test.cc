#include "stretto/train/job/evaluations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/summary_json.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using testing::HasSubstr;

RunSummary run(const TrainOptions& options, const LinearTaskOptions& task = {}) {
  return run_training(options, *linear_task(task), {.progress = [](const RunProgress&) {}}).value();
}

std::string refusal(const TrainOptions& options) {
  try {
    run(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Evaluations, AreMadeOnceForEverySoManyBatches) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"sync", 0},        {"wagma", 0},  {"eager-quorum", 0}, {"local", 2}, {"local:quorum", 2}, {"diloco", 2},
      {"diloco:solo", 2}, {"d-psgd", 0}, {"sgp", 0},          {"osgp", 0},  {"gossip-grad", 0},  {"ad-psgd", 0}};
  for (const auto& [algorithm, own_steps] : cases) {
    // The others might leave rank 0 without batches that tell it how far the job is.
    const bool nobody_waits = algorithm == std::string("ad-psgd");
    for (const char* what : {"average", "replica"}) {
      const RunSummary s = run({.algorithm = algorithm,
                                .ranks = 3,
                                .epochs = 10,  // 160 batches
                                .data = nobody_waits ? "partitioned" : "",
                                .sync_every = own_steps,
                                .evaluate_every = 30,
                                .evaluate = what});
      EXPECT_TRUE(s.replicas_identical) << algorithm << ", " << what;
      EXPECT_GE(s.evaluations.size(), 2u) << algorithm << ", " << what;
      EXPECT_LE(s.evaluations.size(), 5u) << algorithm << ", " << what;
      std::uint64_t before = 0;
      for (const auto& point : s.evaluations) {
        EXPECT_EQ(point.of, what);
        EXPECT_GT(point.batches / 30, before / 30) << algorithm << ", " << what;
        EXPECT_EQ(point.loss, point.train_loss) << "of this task";
        before = point.batches;
      }
      // With batches as small as these late steps may throw a model back, where rounds do not wait for all ranks.
      const bool waits_for_all = algorithm == std::string("sync") || algorithm == std::string("local");
      if (waits_for_all) {
        EXPECT_LT(s.evaluations.back().loss, s.evaluations.front().loss) << algorithm << ", " << what;
      }
      EXPECT_THAT(to_json(s), HasSubstr("\"evaluations\": [\n    {\n      \"seconds\":"));
      EXPECT_EQ(s.final_batches, 160u);
    }
  }
  EXPECT_TRUE(run({.ranks = 2, .epochs = 2}).evaluations.empty());
}

TEST(Evaluations, ChangeNothingInWhatIsTrained) {
  for (const char* algorithm : {"sync", "local", "diloco"}) {
    TrainOptions options{.algorithm = algorithm, .ranks = 3, .epochs = 4, .momentum = 0.9, .data = "partitioned"};
    const RunSummary plain = run(options);
    options.evaluate_every = 20;
    EXPECT_EQ(run(options).loss, plain.loss) << algorithm;
  }
}

// Rank 0 evaluates nothing while it trains: the first evaluation ends only once rank 0 has made five more steps, which
// it cannot under sync unless all others make them, too.
TEST(Evaluations, AllRanksGoOnMeanwhile) {
  for (const char* what : {"average", "replica"}) {
    std::atomic<std::uint64_t> begun{0};  // steps of the rank whose process it is
    std::atomic<bool> first{true};
    const LinearTaskOptions task{.before_batch = [&](std::uint64_t step) { begun = step; },
                                 .in_evaluation =
                                     [&] {
                                       if (!first.exchange(false)) return;
                                       const std::uint64_t until =
                                           std::min<std::uint64_t>(begun + 5, 20);  // of 22 steps
                                       for (int i = 0; i < 60'000 && begun < until; ++i) {
                                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                       }
                                       if (begun < until) throw std::runtime_error("no rank has gone on");
                                     }};
    const RunSummary s = run({.ranks = 3, .epochs = 4, .evaluate_every = 40, .evaluate = what}, task);
    EXPECT_EQ(s.evaluations.size(), 1u) << what << ": rank 0 would wait with a third copy";
    EXPECT_TRUE(s.replicas_identical);
  }
}

TEST(Evaluations, NoneIsLeftOutHoweverLongTheyTake) {
  TrainOptions options{.algorithm = "local", .ranks = 2, .epochs = 4, .sync_every = 1, .evaluate_every = 2};
  const RunSummary quick = run(options);
  const RunSummary slow =
      run(options, {.in_evaluation = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }});
  ASSERT_EQ(quick.evaluations.size(), 32u);
  ASSERT_EQ(slow.evaluations.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(slow.evaluations[i].batches, 2 * (i + 1));
    EXPECT_EQ(slow.evaluations[i].loss, quick.evaluations[i].loss);
  }
}

TEST(Evaluations, TheAverageIsTheModelThatARunOfSoManyBatchesEndsWith) {
  for (const char* algorithm : {"sync", "local", "wagma"}) {
    TrainOptions options{.algorithm = algorithm, .ranks = 2, .epochs = 4, .momentum = 0.5, .data = "partitioned"};
    if (algorithm == std::string("local")) options.sync_every = 2;
    if (algorithm == std::string("wagma")) options.algorithm_options.set("tau", "4");
    options.pace = std::chrono::milliseconds(1);
    options.simulated = true;  // so that wagma repeats to the bit
    options.evaluate_every = 32;
    const RunSummary whole = run(options);
    ASSERT_EQ(whole.evaluations.size(), 2u) << algorithm;
    for (const std::size_t i : {0u, 1u}) {
      EXPECT_EQ(whole.evaluations[i].batches, 32 * (i + 1)) << algorithm;
      options.epochs = 2 * (i + 1);
      EXPECT_EQ(whole.evaluations[i].loss, run(options).loss) << algorithm;
    }
  }
}

TEST(Evaluations, AFailureEndsTheRunAndSaysWhere) {
  for (const std::uint64_t every : {16, 64}) {  // in the middle; with the last batch
    const LinearTaskOptions task{.in_evaluation = [] { throw std::runtime_error("test data are gone"); }};
    try {
      run({.ranks = 4, .epochs = 4, .evaluate_every = every}, task);
      FAIL() << "no failure";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().message, text("rank 0: evaluation after ", every, " batches: test data are gone"));
    }
  }
}

TEST(Evaluations, TakeNoVirtualTime) {
  TrainOptions options{
      .algorithm = "local", .ranks = 3, .epochs = 4, .pace = std::chrono::milliseconds(1), .sync_every = 3};
  options.simulated = true;
  options.imbalance = "lognormal:mean=2ms,cv=1";
  const RunSummary plain = run(options);
  options.evaluate_every = 6;
  const RunSummary evaluated = run(options);
  EXPECT_EQ(evaluated.wall_seconds, plain.wall_seconds);
  EXPECT_EQ(evaluated.loss, plain.loss);
  options.compute_threads = 3;
  const RunSummary again =
      run(options, {.in_evaluation = [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }});
  EXPECT_EQ(to_json(again), to_json(evaluated)) << "the same to the bit, however long evaluations take";
  EXPECT_GE(evaluated.evaluations.size(), 5u);
}

TEST(Evaluations, TheBestIsTheOneOfLowestTrainingLoss) {
  // At this rate the loss falls, and then rises without bound.
  TrainOptions options{.algorithm = "local", .ranks = 2, .epochs = 8, .momentum = 0.97, .sync_every = 2};
  options.lr = 0.06;
  options.evaluate_every = 4;
  options.final_model = "best";
  const RunSummary best = run(options);
  EXPECT_EQ(best.final_model, "best");
  const auto lowest =
      std::ranges::min_element(best.evaluations, {}, [](const auto& point) { return point.train_loss; });
  EXPECT_LE(*best.train_loss, lowest->train_loss);
  if (best.final_batches != 128u) {
    EXPECT_EQ(best.final_batches, lowest->batches);
    EXPECT_EQ(*best.train_loss, lowest->train_loss);
  }
  options.final_model = "average";
  const RunSummary average = run(options);
  EXPECT_EQ(average.final_batches, 128u);
  EXPECT_GT(*average.train_loss, *best.train_loss) << "this run must have been better before";
  EXPECT_TRUE(best.replicas_identical) << "until the last comparison";
}

TEST(Evaluations, RankZeroCountsAsItWasBeforeTheLastAverage) {
  TrainOptions options{.algorithm = "local", .ranks = 3, .epochs = 3, .momentum = 0.9, .sync_every = 1000};
  const RunSummary average = run(options);
  options.final_model = "rank0";
  const RunSummary alone = run(options);
  EXPECT_NE(alone.loss, average.loss);
  EXPECT_EQ(alone.final_model, "rank0");
}

TEST(Evaluations, RefuseWhatHasNoEffect) {
  EXPECT_THAT(refusal({.evaluate = "replica"}), HasSubstr("evaluate replica: expected evaluate-every"));
  EXPECT_THAT(refusal({.evaluate_every = 9, .evaluate = "all"}), HasSubstr("evaluate all: expected average or"));
  EXPECT_THAT(refusal({.final_model = "best"}), HasSubstr("final best: expected evaluate-every beside it"));
  EXPECT_THAT(refusal({.final_model = "last"}), HasSubstr("final last: expected average, best or rank0"));
  EXPECT_THAT(refusal({.final_model = "rank0"}), HasSubstr("final rank0 with algorithm 'sync'"));
}

}  // namespace
}  // namespace stretto
