#include "stretto/train/job/step/input_pipeline.h"

#include <gtest/gtest.h>

#include "stretto/base/cores.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

TEST(InputPipeline, BurnsItsLoadForEachBatchAndOneAhead) {
  InputPipeline pipeline(2, 4ms);
  for (int step = 0; step < 5; ++step) {
    pipeline.next();
    EXPECT_GE(pipeline.burnt(), (step + 1) * 4ms);  // a step has its batch when all threads are through with it
  }
  EXPECT_LT(pipeline.burnt(), 6 * 4ms + 10ms) << "more than one batch ahead";
}

TEST(InputPipeline, DoesNotHoldUpAStepThatHasItsBatch) {
  InputPipeline pipeline(1, 20ms);
  pipeline.next();
  const Duration before = thread_time();
  pipeline.next();  // sleeps until the second batch is there
  EXPECT_LT(thread_time() - before, 15ms) << "the caller has burnt time itself";
}

TEST(InputPipeline, EndsInTheMiddleOfABatch) {
  const TimePoint begin = SteadyClock().now();
  { InputPipeline pipeline(3, 3600s); }
  EXPECT_LT(SteadyClock().now() - begin, 10s);
}

TEST(InputPipeline, RunsOnTheCoresItIsGiven) {
  const std::vector<int> usable = usable_cores();
  InputPipeline pipeline(2, 2ms, {usable.back()});
  pipeline.next();
  pipeline.next();
  EXPECT_GE(pipeline.burnt(), 4ms);
  EXPECT_EQ(usable_cores(), usable) << "the caller's own cores have changed";
}

}  // namespace
}  // namespace stretto
