#include "stretto/ordering/runtime/application_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

/// A thread submits all the time. Where a step ends in the middle of a submit() it is refused, and goes on; else
/// nothing of the step comes behind its end.
TEST(ApplicationQueue, AStepDoesNotEndWhileAThreadStillSubmits) {
  const std::vector<ProcessSet> sets{ProcessSet(0, {0}, 0)};
  ApplicationQueue queue(sets);
  std::atomic<bool> over{false};
  std::thread submits([&] {
    const std::vector<std::int64_t> in(1);
    std::vector<std::int64_t> out(1);
    for (int i = 0; !over; i = (i + 1) % 100) {
      try {
        queue.submit({.name = text("t", i), .type = DataType::int64, .count = 1}, Argument::in(in), Argument::out(out),
                     TimePoint());
      } catch (const UsageError&) {  // outside a step, or twice in it
      }
    }
  });
  std::string refused;
  for (StepNumber step = 0; refused.empty(); ++step) {
    queue.begin_step(step, RoundHeader(1));
    for (bool ended = false; !ended;) {
      try {
        queue.end_step();
        ended = true;
      } catch (const UsageError& error) {
        refused = error.what();
      }
    }
    std::vector<OrderingEvent> events;
    queue.take(events);
    ASSERT_EQ(events.back().kind, OrderingEvent::Kind::step_ended);
    for (const OrderingEvent& event : events) ASSERT_EQ(event.step, step);
  }
  over = true;
  submits.join();
  EXPECT_THAT(refused, HasSubstr("ends while a thread still submits"));
}

}  // namespace
}  // namespace stretto
