#include "stretto/train/recipes/options/lr_schedule.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

TEST(LrSchedule, ConstantIsOne) {
  EXPECT_EQ(LrSchedule::parse("constant").factor(0, 4), 1);
  EXPECT_EQ(LrSchedule::parse("constant").factor(1'000'000, 4), 1);
}

TEST(LrSchedule, RisesOverTheWarmUp) {
  const LrSchedule schedule = LrSchedule::parse("warmup:4");
  EXPECT_EQ(schedule.factor(0, 2), 0.25);
  EXPECT_EQ(schedule.factor(1, 2), 0.25) << "one step is as many batches as there are ranks";
  EXPECT_EQ(schedule.factor(2, 2), 0.5);
  EXPECT_EQ(schedule.factor(6, 2), 1);
  EXPECT_EQ(schedule.factor(1000, 2), 1);
}

TEST(LrSchedule, FallsAtTheMilestones) {
  const LrSchedule schedule = LrSchedule::parse("warmup:2+decay:10@100@200");
  EXPECT_EQ(schedule.factor(0, 1), 0.5);
  EXPECT_EQ(schedule.factor(99, 1), 1);
  EXPECT_EQ(schedule.factor(100, 1), 0.1);
  EXPECT_DOUBLE_EQ(schedule.factor(200, 1), 0.01);
}

TEST(LrSchedule, SaysWhatItCannotRead) {
  for (const char* text :
       {"", "cosine", "warmup:", "warmup:x", "warmup:3x", "decay:10", "decay:0@5", "decay:10@9@5", "decay:-2@5",
        "constant+what", "decay:inf@5", "decay:nan@5", "warmup:5+warmup:5", "decay:2@5+decay:2@9"}) {
    EXPECT_THROW(LrSchedule::parse(text), UsageError) << text;
  }
  try {
    LrSchedule::parse("warmup:soon");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "learning rate schedule 'warmup:soon': cannot read 'warmup:soon'; expected constant, warmup:STEPS "
                 "or decay:FACTOR@STEP[@STEP…], joined with +");
  }
}

}  // namespace
}  // namespace stretto
