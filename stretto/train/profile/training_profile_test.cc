#include "stretto/train/profile/training_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/predict/model/training_job.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobFile, IsReadAsItWasProfiled) {
  const auto step = [](double seconds) {
    return ProfiledStep{{.name = "stem", .bytes = 40, .forward = seconds, .backward = 2 * seconds, .update = 0.5},
                        {.name = "a \"quoted\" branch", .bytes = 0, .forward = 0, .backward = 0, .after = {0}},
                        {.name = "head", .bytes = 8, .forward = seconds, .backward = seconds, .after = {0, 1}}};
  };
  const TrainingProfile profile{.steps = {step(0.25), step(0.5)}, .unused = {"left"}};
  const std::string json = to_job(profile, {.batch = 32, .bandwidth = 1.25e9, .workload = "mine", .machine = "here"});
  const TrainingJob job = read_job(json, "the test").or_throw();
  EXPECT_THAT(job.notes, ElementsAre());
  EXPECT_EQ(job.bandwidth, 1.25e9);
  EXPECT_EQ(job.model_bytes, 48);
  ASSERT_EQ(job.classes.size(), 1u);
  const WorkerClass& workers = job.classes.front();
  EXPECT_EQ(workers.batch, 32);
  EXPECT_EQ(workers.forward, 0.75);
  EXPECT_EQ(workers.backward, 1.125);
  EXPECT_EQ(workers.update, 0.5);
  ASSERT_EQ(workers.steps.size(), 2u);
  EXPECT_EQ(workers.steps[1][0].backward, 1);
  EXPECT_EQ(workers.steps[1][1].name, "a \"quoted\" branch");
  EXPECT_THAT(workers.steps[1][2].after, ElementsAre(0, 1));
  EXPECT_THAT(json, HasSubstr(R"("unused":["left"])"));
}

}  // namespace
}  // namespace stretto
