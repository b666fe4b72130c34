// A step of a loop of one's own allocates nothing once its first steps are over, but where a round has other
// contributors than any before: how they are added is worked out once. In a program of its own: it replaces operator
// new.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "stretto/membership/job.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/testing/two_numbers.h"

namespace {

// Of all threads of this process. Read and reset while they may run: a step is what happens in between.
std::atomic<long> allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, whole == 0 ? alignment : whole)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace stretto {
namespace {

constexpr int kFirstSteps = 10;
constexpr int kSteps = 1000;
// How many steps may have other contributors than any before hangs on how the ranks are scheduled: mostly 2, 9 seen. A
// step that always allocates is one of kSteps.
constexpr int kNewContributors = 50;

class Allocations : public testing::TestWithParam<const char*> {};

TEST_P(Allocations, AreMadeByTheFirstStepsAlone) {
  ::alarm(110);
  const auto result = run_job({.ranks = 2}, [](RankContext& context) {
                        TwoNumbers replica(0);
                        OwnLoop loop(context, replica, {.algorithm = GetParam()});
                        loop.begin();
                        int steps = 0;
                        for (int step = 0; step < kFirstSteps + kSteps; ++step) {
                          const long before = allocations.load();
                          loop.begin_step();
                          replica.backward(0, 1);
                          replica.backward(1, 1);
                          loop.step(1);
                          const long made = allocations.load() - before;
                          if (step >= kFirstSteps && made > 0) ++steps;
                        }
                        loop.finish();
                        context.report(std::to_string(steps));
                        return 0;
                      }).or_throw();
  ::alarm(0);
  EXPECT_TRUE(result.ok()) << result.cause;
  for (const std::string& steps : result.reports) EXPECT_LE(std::stoi(steps), kNewContributors);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Allocations, testing::Values("sync", "eager-quorum", "eager-solo", "local"));

}  // namespace
}  // namespace stretto
