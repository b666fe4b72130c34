// OrderedAllreduce where ranks hand over gradients in memory that the others read, and read sums that lie there once
// for all: threads as ranks that run at their own pace, and end after different numbers of steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/ordering/ordered_allreduce.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr StepNumber kSteps = 6;           // of rank 0; each rank has one more than the one before it
constexpr std::uint64_t kNumbers = 1'000;  // of a tensor
constexpr std::size_t kTensors = 5;

std::int64_t drawn_number(int rank, StepNumber step, std::size_t tensor) {
  return static_cast<std::int64_t>(random_bits(static_cast<std::uint64_t>(rank), step, tensor) >> 8);
}

/// What a rank has of its tensors, as OrderedSync has it.
class SharedTensors {
 public:
  SharedTensors(Engine& engine, OrderingOptions options)
      : engine_(engine), all_(engine, with_memory(std::move(options))), random_(9, static_cast<std::uint64_t>(rank())) {
    for (std::size_t t = 0; t < kTensors; ++t) {
      tensors_.push_back({.name = text("tensor ", t), .type = DataType::int64, .count = kNumbers});
      all_.destination(tensors_[t], Argument::out(part(sums_, t)), bytes_of(t, all_.shared_sums()));
    }
  }

  void train(Driver& driver) {
    const auto apply = [this](const OrderedStep& step) { expect_sums(step); };
    for (StepNumber step = 0; step < kSteps + static_cast<StepNumber>(rank()); ++step) {
      const std::span<std::int64_t> mine = numbers(all_.memory());
      std::ranges::fill(mine, 0);
      pause();
      all_.begin_step({.samples = 1});
      const std::size_t first = random_.below(kTensors);
      for (std::size_t i = 0; i < kTensors; ++i) {
        const std::size_t t = (first + i) % kTensors;
        std::ranges::fill(part(mine, t), drawn_number(rank(), step, t));
        all_.submit(tensors_[t], Argument::in(part(mine, t)), Argument::out(part(sums_, t)));
      }
      all_.end_step(driver, driver.deadline(60s), apply).or_throw();
    }
    drained_ = true;
    all_.finish(driver, driver.deadline(60s), apply).or_throw();
    EXPECT_EQ(handed_, kSteps + static_cast<StepNumber>(engine_.size()) - 1);
    EXPECT_GT(shared_, 0u);
  }

 private:
  static OrderingOptions with_memory(OrderingOptions options) {
    options.memory_bytes = kTensors * kNumbers * sizeof(std::int64_t);
    return options;
  }
  static std::span<std::int64_t> numbers(std::span<std::byte> memory) {
    return {reinterpret_cast<std::int64_t*>(memory.data()), kTensors * kNumbers};
  }
  static std::span<std::int64_t> part(std::span<std::int64_t> of, std::size_t t) {
    return of.subspan(t * kNumbers, kNumbers);
  }
  static const std::byte* bytes_of(std::size_t t, std::span<std::byte> memory) {
    return memory.subspan(t * kNumbers * sizeof(std::int64_t)).data();
  }
  int rank() const { return engine_.rank(); }
  void pause() {
    if (random_.chance(0.3)) std::this_thread::sleep_for(std::chrono::microseconds(random_.below(500)));
  }

  void expect_sums(const OrderedStep& step) {
    EXPECT_EQ(step.step, handed_++);
    EXPECT_EQ(step.reduced.size(), kTensors);
    shared_ += step.shared.size();
    pause();  // the others go on meanwhile, or come to their end
    if (drained_ && random_.chance(0.3)) std::this_thread::sleep_for(5ms);
    std::uint64_t batches = 0;
    for (std::size_t t = 0; t < kTensors; ++t) {
      std::int64_t expected = 0;
      batches = 0;
      for (int r = 0; r < engine_.size(); ++r) {
        if (step.step >= kSteps + static_cast<StepNumber>(r)) continue;
        expected += drawn_number(r, step.step, t);
        ++batches;
      }
      const auto names_it = [&](const TensorDescription* shared) { return shared->name == tensors_[t].name; };
      const bool shared = std::ranges::any_of(step.shared, names_it);
      for (const std::int64_t sum : part(shared ? numbers(all_.shared_sums()) : sums_, t)) {
        ASSERT_EQ(sum, expected) << "tensor " << t << " in step " << step.step << " on rank " << rank();
      }
    }
    EXPECT_EQ(step.header->batches, batches);
  }

  Engine& engine_;
  std::vector<std::int64_t> sums_ = std::vector<std::int64_t>(kTensors * kNumbers);
  OrderedAllreduce all_;
  std::vector<TensorDescription> tensors_;
  Random random_;
  StepNumber handed_ = 0;
  bool drained_ = false;
  std::uint64_t shared_ = 0;  // sums that all ranks have read in one place
};

TEST(OrderedInSharedMemory, RanksReadWhatTheyShareUntilTheLastOfThemHasDrained) {
  for (const int ranks : {2, 3, 5}) {
    for (const ProgressBy by : {ProgressBy::application, ProgressBy::thread}) {
      run_thread_job(ranks, [&](Engine& engine) {
        // One after the other, in the same memory.
        for (const char* ordering : {"topo", "coordinator", "nbcs", "topo"}) {
          SCOPED_TRACE(text(ordering, " on ", ranks, " ranks"));
          OrderingOptions options = OrderingOptions::named(ordering);
          options.cycle_time = 200us;
          options.fusion_bytes = 2 * kNumbers * sizeof(std::int64_t);
          SharedTensors tensors(engine, options);
          EngineDriver driver(engine, {.progress_by = by, .spin = Duration{0}});
          tensors.train(driver);
        }
        return true;
      });
    }
  }
}

}  // namespace
}  // namespace stretto
