#include "stretto/train/job/evaluations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/summary_json.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using testing::HasSubstr;

RunSummary run(const TrainOptions& options) {
  return run_training(options, *linear_task(), {.progress = [](const RunProgress&) {}}).value();
}

std::string complaint(const TrainOptions& options) {
  try {
    run(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Evaluations, AreMadeOnceForEverySoManyBatches) {
  const std::pair<const char*, std::uint64_t> cases[] = {{"sync", 0},       {"wagma", 0},        {"eager-quorum", 0},
                                                         {"local", 2},      {"local:quorum", 2}, {"diloco", 2},
                                                         {"diloco:solo", 2}};
  for (const auto& [algorithm, own_steps] : cases) {
    for (const char* what : {"average", "replica"}) {
      const RunSummary s = run({.algorithm = algorithm,
                                .ranks = 3,
                                .epochs = 10,  // 160 batches
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
      EXPECT_LT(s.evaluations.back().loss, s.evaluations.front().loss) << algorithm << ", " << what;
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
  EXPECT_THAT(complaint({.evaluate = "replica"}), HasSubstr("evaluate replica: expected evaluate-every"));
  EXPECT_THAT(complaint({.evaluate_every = 9, .evaluate = "all"}), HasSubstr("evaluate all: expected average or"));
  EXPECT_THAT(complaint({.final_model = "best"}), HasSubstr("final best: expected evaluate-every beside it"));
  EXPECT_THAT(complaint({.final_model = "last"}), HasSubstr("final last: expected average, best or rank0"));
  EXPECT_THAT(complaint({.final_model = "rank0"}), HasSubstr("final rank0 with algorithm 'sync'"));
}

}  // namespace
}  // namespace stretto
