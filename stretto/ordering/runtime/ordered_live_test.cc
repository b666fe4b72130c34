// OrderedAllreduce in threads and processes, as applications use it: several submitting threads, several process sets,
// misuse, aborts, ranks that are lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/collective/plain.h"
#include "stretto/collective/testing/process_job.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"
#include "stretto/ordering/ordered_allreduce.h"
#include "stretto/ordering/testing/planned_orderer.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr DriverOptions kBySelf{.progress_by = ProgressBy::application, .spin = Duration{0}};
constexpr DriverOptions kByThread{.progress_by = ProgressBy::thread, .spin = Duration{0}};

const auto kIgnore = [](const OrderedStep&) {};

OrdererFactory by_plan(const PlannedOrderer::Plan& plan) {
  return [=](const ProcessSet&) { return std::make_unique<PlannedOrderer>(plan); };
}

TensorDescription floats(std::string name, std::uint64_t count, int set = 0) {
  return {.name = std::move(name), .set = set, .count = count};
}

/// One float tensor a letter of `names`, with that many elements as its place in the alphabet says, cubed.
PlannedOrderer::Plan plan_of(const std::vector<std::string>& buffers) {
  PlannedOrderer::Plan plan;
  for (const std::string& names : buffers) {
    auto& buffer = plan.emplace_back();
    for (const char name : names) {
      const auto place = static_cast<std::uint64_t>(name - 'a') + 1;
      buffer.push_back(floats(std::string(1, name), place * place * place));
    }
  }
  return plan;
}

std::vector<float> drawn(int rank, const TensorDescription& tensor, StepNumber step) {
  Random random(static_cast<std::uint64_t>(rank) * 1000 + step, static_cast<std::uint64_t>(tensor.name.front()));
  std::vector<float> out(tensor.count);
  for (float& x : out) x = static_cast<float>(std::ldexp(random.normal(), static_cast<int>(random.between(-9, 9))));
  return out;
}

TEST(OrderedLive, HasTheBitsOfAnAllreduceWhateverIsReducedTogether) {
  for (const int ranks : {1, 2, 3, 5}) {
    run_thread_job(ranks, [&](Engine& engine) {
      const std::vector<std::vector<std::string>> compositions = {
          {"abcdxyz"}, {"a", "b", "c", "d", "x", "y", "z"}, {"zyx", "dcb", "a"}, {"azb", "xcyd"}};
      std::vector<std::unique_ptr<OrderedAllreduce>> ways;
      for (const auto& composition : compositions) {
        for (const bool share : {false, true}) {
          const OrderingOptions options{.share_memory = share};
          ways.push_back(std::make_unique<OrderedAllreduce>(engine, options, by_plan(plan_of(composition))));
        }
      }
      std::vector<TensorDescription> tensors;
      for (const auto& buffer : plan_of(compositions[0])) tensors.insert(tensors.end(), buffer.begin(), buffer.end());
      std::vector<std::unique_ptr<Allreduce>> oracles;
      for (const auto& tensor : tensors) {
        oracles.push_back(std::make_unique<Allreduce>(engine, tensor.type, tensor.count, tensor.op));
      }
      EngineDriver driver(engine, kByThread);
      for (StepNumber step = 0; step < 3; ++step) {
        std::vector<std::vector<float>> mine, expected;
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          mine.push_back(drawn(engine.rank(), tensors[t], step));
          expected.emplace_back(tensors[t].count);
          oracles[t]->run(driver, driver.deadline(kWatchdog), mine[t], expected[t]).or_throw();
        }
        for (const auto& way : ways) {
          auto out = mine;  // in place
          way->begin_step({});
          for (std::size_t t = 0; t < tensors.size(); ++t) {
            way->submit(tensors[t], Argument::in(out[t]), Argument::out(out[t]));
          }
          way->end_step(driver, driver.deadline(kWatchdog), kIgnore).or_throw();
          for (std::size_t t = 0; t < tensors.size(); ++t) {
            EXPECT_EQ(std::memcmp(out[t].data(), expected[t].data(), tensors[t].bytes()), 0) << tensors[t].name;
          }
        }
      }
      for (const auto& way : ways) way->finish(driver, driver.deadline(kWatchdog), kIgnore).or_throw();
      return true;
    });
  }
}

TEST(OrderedLive, TakesTensorsFromSeveralThreads) {
  for (const bool background : {false, true}) {
    run_thread_job(3, [&](Engine& engine) {
      const auto plan = plan_of({"ab", "cd", "ef", "gh"});
      OrderedAllreduce all(engine, {.in_flight = 2, .background_only = background}, by_plan(plan));
      all.record_timeline();
      EngineDriver driver(engine, kByThread);
      std::vector<TensorDescription> tensors;
      for (const auto& buffer : plan) tensors.insert(tensors.end(), buffer.begin(), buffer.end());
      std::vector<std::vector<float>> in, out;
      for (const auto& tensor : tensors) {
        in.emplace_back(tensor.count, static_cast<float>(engine.rank() + 1));
        out.emplace_back(tensor.count);
      }
      for (int step = 0; step < 30; ++step) {
        for (auto& sum : out) std::ranges::fill(sum, 0.0f);
        all.begin_step({});
        std::vector<std::thread> schedulers;
        for (std::size_t s = 0; s < 4; ++s) {
          schedulers.emplace_back([&, s] {
            for (std::size_t t = s; t < tensors.size(); t += 4) {
              all.submit(tensors[t], Argument::in(in[t]), Argument::out(out[t]));
            }
          });
        }
        for (auto& scheduler : schedulers) scheduler.join();
        all.end_step(driver, driver.deadline(kWatchdog),
                     [&](const OrderedStep& done) {
                       EXPECT_EQ(done.reduced.size(), tensors.size());
                       for (const auto& sum : out) EXPECT_EQ(sum, std::vector<float>(sum.size(), 6.0f));
                     })
            .or_throw();
        const auto timeline = all.take_timeline();
        EXPECT_EQ(timeline.size(), tensors.size());
        for (const TensorTimes& t : timeline) {
          EXPECT_EQ(t.step, static_cast<StepNumber>(step));
          EXPECT_TRUE(t.submitted <= t.taken && t.taken <= t.begun && t.begun <= t.fused && t.fused <= t.done)
              << t.name;
        }
      }
      all.finish(driver, driver.deadline(kWatchdog), kIgnore).or_throw();
      return true;
    });
  }
}

TEST(OrderedLive, EachOrderingInEachWayToWait) {
  for (const char* ordering : {"coordinator", "gs", "nbcs", "topo"}) {
    for (const bool spins : {false, true}) {
      for (const bool background : {false, true}) {
        SCOPED_TRACE(text(ordering, spins ? ", spinning" : "", background ? ", in the background" : ""));
        run_thread_job(3, [&](Engine& engine) {
          OrderingOptions options = OrderingOptions::named(ordering);
          options.cycle_time = 300us;
          options.negotiation_wait = spins ? OrderingOptions::Waiting::spin : OrderingOptions::Waiting::sleep;
          options.background_only = background;
          options.share_memory = spins == background;
          options.fusion_bytes = 4000;
          OrderedAllreduce all(engine, options);
          EngineDriver driver(engine, kByThread);
          const auto tensors = plan_of({"abcdefghijk"}).front();
          std::vector<std::vector<float>> in, out;
          for (const auto& tensor : tensors) {
            in.emplace_back(tensor.count, static_cast<float>(1 << engine.rank()));
            out.emplace_back(tensor.count);
          }
          Random random(1, static_cast<std::uint64_t>(engine.rank()));
          for (int step = 0; step < 12; ++step) {
            for (auto& sum : out) std::ranges::fill(sum, 0.0f);
            all.begin_step({});
            for (std::size_t i = 0, t = random.below(tensors.size()); i < tensors.size(); ++i, ++t) {
              const std::size_t at = t % tensors.size();
              all.submit(tensors[at], Argument::in(in[at]), Argument::out(out[at]));
            }
            all.end_step(driver, driver.deadline(kWatchdog),
                         [&](const OrderedStep& done) { EXPECT_EQ(done.reduced.size(), tensors.size()); })
                .or_throw();
            for (const auto& sum : out) EXPECT_EQ(sum, std::vector<float>(sum.size(), 7.0f));
          }
          all.finish(driver, driver.deadline(kWatchdog), kIgnore).or_throw();
          const OrderingStatistics cost = all.statistics();
          EXPECT_EQ(cost.steps, 12u);
          EXPECT_EQ(cost.tensors, 12 * tensors.size());
          EXPECT_GT(cost.syncs, 0u);
          EXPECT_GT(cost.control_messages, 0u);
          EXPECT_GT(cost.negotiation, 0ns);
          return true;
        });
      }
    }
  }
}

TEST(OrderedLive, ProcessSetsReduceAmongThemselves) {
  run_thread_job(4, [&](Engine& engine) {
    OrderingOptions options;
    options.sets = {{2, 0}, {1, 2, 3}};
    const std::vector<TensorDescription> tensors = {floats("world", 5), floats("two", 7, 1), floats("three", 9, 2)};
    OrderedAllreduce all(engine, options, [&](const ProcessSet& set) {
      return std::make_unique<PlannedOrderer>(PlannedOrderer::Plan{{tensors[static_cast<std::size_t>(set.number())]}});
    });
    EngineDriver driver(engine, kByThread);
    const std::set<int> members[] = {{0, 1, 2, 3}, {0, 2}, {1, 2, 3}};
    const int rank = engine.rank();
    for (int step = 0; step < 5; ++step) {
      all.begin_step({});
      std::vector<std::vector<float>> out;
      for (const auto& tensor : tensors) out.emplace_back(tensor.count, static_cast<float>(1 << rank));
      std::size_t mine = 0;
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (!members[t].contains(rank)) {
          EXPECT_THROW(all.submit(tensors[t], Argument::in(out[t]), Argument::out(out[t])), UsageError);
          continue;
        }
        all.submit(tensors[t], Argument::in(out[t]), Argument::out(out[t]));
        ++mine;
      }
      all.end_step(driver, driver.deadline(kWatchdog),
                   [&](const OrderedStep& done) {
                     EXPECT_EQ(done.reduced.size(), mine);
                     EXPECT_EQ(done.header->batches, 4u);
                   })
          .or_throw();
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        float sum = 0;
        for (const int member : members[t]) sum += static_cast<float>(1 << member);
        if (!members[t].contains(rank)) sum = static_cast<float>(1 << rank);
        EXPECT_EQ(out[t], std::vector<float>(tensors[t].count, sum));
      }
    }
    all.finish(driver, driver.deadline(kWatchdog), kIgnore).or_throw();
    return true;
  });
}

TEST(OrderedMisuse, IsRefusedInWords) {
  run_thread_job(1, [&](Engine& engine) {
    OrderedAllreduce all(engine, {}, by_plan({{floats("a", 2), floats("b", 2)}}));
    EngineDriver driver(engine, kBySelf);
    std::vector<float> two(2), three(3);
    std::vector<std::int32_t> integers(2);
    const auto says = [&](const std::function<void()>& call, const char* words) {
      try {
        call();
        ADD_FAILURE() << "not refused: " << words;
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr(words));
      }
    };
    const auto submit = [&](const TensorDescription& tensor) {
      all.submit(tensor, Argument::in(two), Argument::out(two));
    };
    says([&] { submit(floats("a", 2)); }, "tensor a is submitted outside a step");
    says([&] { (void)all.end_step(driver, {}, kIgnore); }, "end_step() without begin_step()");
    says([&] { (void)all.wait(driver, "a", {}); }, "outside a step");
    all.begin_step({});
    says([&] { all.begin_step({}); }, "step 0 has not ended");
    says([&] { all.drain(); }, "drain() in step 0");
    says([&] { (void)all.wait(driver, "a", {}); }, "which this step has not submitted");
    says([&] { all.destination(floats("a", 2), Argument::out(two)); }, "inside a step");
    says([&] { submit(floats("a", 2, 1)); }, "process set 1; there are the sets 0 to 0");
    says([&] { submit(floats("a", 3)); }, "\"in\" has 2 float32; described are 3 float32");
    says([&] { all.submit(floats("a", 2), Argument::in(two), Argument::out(integers)); }, "\"out\" has 2 int32");
    says([&] { submit({.name = "a", .count = 2, .op = ReduceOp::bit_and}); }, "bit_and of float32");
    submit(floats("a", 2));
    says([&] { submit(floats("a", 2)); }, "tensor a is submitted twice in step 0");
    all.end_step(driver, driver.deadline(kWatchdog), kIgnore).or_throw();
    all.drain();
    says([&] { all.begin_step({}); }, "after drain()");
    EXPECT_EQ(all.finish(driver, driver.deadline(kWatchdog), kIgnore).or_throw(), 0);
    OrderingOptions none = OrderingOptions::named("none");
    says([&] { OrderedAllreduce(engine, none, by_plan({})); }, "ordering none");
    none = {};
    none.in_flight = 0;
    says([&] { OrderedAllreduce(engine, none, by_plan({})); }, "in flight 0");
    return true;
  });
}

TEST(OrderedFailure, OptionsThatDifferFailOnEveryRank) {
  run_thread_job(3, [&](Engine& engine) {
    OrderedAllreduce all(engine, {.fusion_bytes = engine.rank() == 1 ? 100u : 200u}, by_plan(plan_of({"a"})));
    EngineDriver driver(engine, kBySelf);
    std::vector<float> one(1);
    all.begin_step({});
    all.submit(floats("a", 1), Argument::in(one), Argument::out(one));
    const auto result = all.end_step(driver, driver.deadline(kWatchdog), kIgnore);
    EXPECT_FALSE(result.ok());
    if (!result.ok()) {
      EXPECT_EQ(result.error().code, Errc::bad_input);
      EXPECT_THAT(result.error().message, HasSubstr("fusion bytes 100"));
    }
    return true;
  });
}

TEST(OrderedFailure, AnAbortReachesARankThatWaits) {
  for (const bool background : {false, true}) {
    run_thread_job(3, [&](Engine& engine) {
      OrderedAllreduce all(engine, {.background_only = background}, by_plan(plan_of({"a", "b"})));
      EngineDriver driver(engine, kByThread);
      std::vector<float> one(1);
      all.begin_step({});
      if (engine.rank() == 2) {
        all.abort(driver, {Errc::aborted, "had enough", 2});
      } else {
        all.submit(floats("a", 1), Argument::in(one), Argument::out(one));
        const auto result = engine.rank() == 0 ? all.end_step(driver, driver.deadline(kWatchdog), kIgnore)
                                               : all.wait(driver, "a", driver.deadline(kWatchdog));
        EXPECT_FALSE(result.ok());
        if (!result.ok()) {
          EXPECT_EQ(result.error().message, "rank 2 stopped the job: had enough");
        }
      }
      EXPECT_EQ(all.failure().value_or(Error{Errc::io, ""}).code, Errc::aborted);
      return true;
    });
  }
}

TEST(OrderedFailure, ADeadlineNamesWhoIsSilentAndTheStepGoesOnAfterwards) {
  std::atomic<bool> timed_out{false};
  run_thread_job(3, [&](Engine& engine) {
    OrderedAllreduce all(engine, {}, by_plan(plan_of({"a"})));
    EngineDriver driver(engine, kByThread);
    std::vector<float> one(1, 1.0f);
    const auto step = [&] {
      all.begin_step({});
      all.submit(floats("a", 1), Argument::in(one), Argument::out(one));
    };
    step();
    if (engine.rank() == 0) {
      const auto late = all.end_step(driver, driver.deadline(20ms), kIgnore);
      EXPECT_FALSE(late.ok());
      if (!late.ok()) {
        EXPECT_EQ(late.error().code, Errc::timeout);
        EXPECT_THAT(late.error().message, HasSubstr("step 0 waits for buffer 0 of set 0"));
      }
      timed_out.store(true);
      timed_out.notify_all();
    } else {
      timed_out.wait(false);
    }
    all.end_step(driver, driver.deadline(kWatchdog), kIgnore).or_throw();
    EXPECT_EQ(one[0], 3.0f);
    all.finish(driver, driver.deadline(kWatchdog), kIgnore).or_throw();
    return true;
  });
}

TEST(OrderedFailure, AKilledProcessIsNamedOnTheOthers) {
  const auto statuses = run_process_job(3, [](Engine& engine) {
    OrderedAllreduce all(engine, {}, by_plan(plan_of({"ab", "c"})));
    EngineDriver driver(engine, kBySelf);
    std::vector<float> some(27);
    for (int step = 0;; ++step) {
      all.begin_step({});
      for (const auto& tensor : {floats("a", 1), floats("b", 8), floats("c", 27)}) {
        if (engine.rank() == 1 && step == 3 && tensor.name == "b") std::raise(SIGKILL);
        all.submit(tensor, Argument::in(std::span(some).first(tensor.count)),
                   Argument::out(std::span(some).first(tensor.count)));
      }
      const auto result = all.end_step(driver, driver.deadline(kWatchdog), kIgnore);
      if (result.ok()) continue;
      return step == 3 && result.error().code == Errc::lost_peer && result.error().rank == 1 ? 0 : 2;
    }
  });
  ASSERT_EQ(statuses.size(), 3u);
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[2], 0);
}

TEST(OrderedFailure, ARankThatLeavesWithoutDrainingIsNamed) {
  run_thread_job(2, [&](Engine& engine) {
    OrderedAllreduce all(engine, {}, by_plan(plan_of({"a"})));
    EngineDriver driver(engine, kBySelf);
    if (engine.rank() == 1) return true;
    std::vector<float> one(1);
    all.begin_step({});
    all.submit(floats("a", 1), Argument::in(one), Argument::out(one));
    const auto result = all.end_step(driver, driver.deadline(kWatchdog), kIgnore);
    EXPECT_FALSE(result.ok());
    if (!result.ok()) {
      EXPECT_EQ(result.error().code, Errc::lost_peer);
      EXPECT_THAT(result.error().message, HasSubstr("rank 1 has left"));
    }
    return true;
  });
}

}  // namespace
}  // namespace stretto
