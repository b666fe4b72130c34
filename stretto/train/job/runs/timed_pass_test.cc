#include "stretto/train/job/step/timed_pass.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "stretto/train/job/no_gradients.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

TEST(TimedPass, HearsNothingOfThePassesAfterOneThatHasThrown) {
  const auto task = linear_task();
  const NoGradients zeros(*task, 0, {{.bytes = 4, .forward = 1, .backward = 1}});
  const auto rank = zeros.start_rank({});
  rank->replica().attach_own();
  const SteadyClock clock;
  int sleeps = 0;
  Pacer pacer(1ms, clock, [&](TimePoint) { ++sleeps; });
  const auto pass = [&] { rank->forward_backward({}, 1); };
  {
    TimedPass timed(rank->replica(), pacer, nullptr);
    pacer.begin();
    const auto fails = [&] {
      pass();
      throw std::runtime_error("no");
    };
    EXPECT_THROW(timed.run({.computes = fails, .ends = [] {}, .has_waited = [] { return 0ms; }, .by_layer = true}, 1,
                           ImbalanceDraw()),
                 std::runtime_error);
  }
  EXPECT_GT(sleeps, 0);
  sleeps = 0;
  pass();
  EXPECT_EQ(sleeps, 0);
}

}  // namespace
}  // namespace stretto
