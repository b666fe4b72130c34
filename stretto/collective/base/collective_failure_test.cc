#include <gtest/gtest.h>

#include <memory>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/plain.h"
#include "stretto/collective/testing/every_collective.h"

namespace stretto {
namespace {

WaitingCollective barrier(Engine& engine) {
  auto made = std::make_unique<Barrier>(engine);
  Barrier& barrier = *made;
  return {std::move(made), [&barrier](Driver& driver, TimePoint by) { return barrier.run(driver, by); }};
}

WaitingCollective allreduce(Engine& engine, const AllreduceOptions& options) {
  auto made = std::make_unique<Allreduce>(engine, DataType::int32, 100, ReduceOp::sum, options);
  Allreduce& sum = *made;
  return {std::move(made), [&sum](Driver& driver, TimePoint by) { return sum.run(driver, by); }};
}

WaitingCollective partial(Engine& engine, int seats) {
  auto made = std::make_unique<PartialAllreduce>(engine, std::vector<BucketSpec>{{DataType::int32, 100}},
                                                 PartialOptions{.seats = seats});
  PartialAllreduce& sum = *made;
  return {std::move(made), [&sum](Driver& driver, TimePoint by) -> Result<void> {
            const auto rounds = sum.exchange(driver, by, [](const RoundResult&) {});
            return rounds ? Result<void>() : Result<void>(rounds.error());
          }};
}

const CollectiveKind kKinds[] = {
    {"Barrier", barrier},
    {"AllreduceByMessages", [](Engine& e) { return allreduce(e, {.through = AllreduceOptions::Through::messages}); }},
    {"AllreduceByExchange", [](Engine& e) { return allreduce(e, {.through = AllreduceOptions::Through::exchange}); }},
    {"AllreduceByGather", [](Engine& e) { return allreduce(e, {.through = AllreduceOptions::Through::gather}); }},
    {"AllreduceOnSeveralBoards", [](Engine& e) { return allreduce(e, {.seats = 2}); }},
    {"PartialOnABoard", [](Engine& e) { return partial(e, 0); }},
    {"PartialByMessages", [](Engine& e) { return partial(e, 1); }},
    {"PartialOnSeveralBoards", [](Engine& e) { return partial(e, 2); }},
};

INSTANTIATE_TEST_SUITE_P(All, EveryCollective, testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace stretto
