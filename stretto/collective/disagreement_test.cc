// Ranks that make collectives which differ in something no sum of sizes shows: each is told, with both ranks' names and
// the first item that differs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/plain.h"
#include "stretto/collective/testing/thread_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kOddRank = 1;

struct Made {
  std::vector<BucketSpec> buckets;
  PartialOptions options;
};

/// The error with which each rank's calls end. Policy full: no round completes without the odd rank.
std::vector<Error> errors_of(const Made& made, const Made& odd) {
  std::vector<Error> errors(kRanks, Error{Errc::io, "no error", -1});
  run_thread_job(kRanks, [&](Engine& engine) {
    const Made& mine = engine.rank() == kOddRank ? odd : made;
    PartialAllreduce allreduce(engine, mine.buckets, mine.options);
    EngineDriver driver(engine);
    Result<int> result = 0;
    for (int step = 0; result && step < 10; ++step) {
      allreduce.deposit(allreduce.acquire(), {});
      result = allreduce.exchange(driver, driver.deadline(60s), [](const RoundResult&) {});
    }
    if (!result) errors[static_cast<std::size_t>(engine.rank())] = result.error();
    return true;
  });
  return errors;
}

void expect_named(const std::vector<Error>& errors, const std::string& odd_item, const std::string& item) {
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Errc::bad_input) << error.message;
    EXPECT_THAT(error.message, AllOf(HasSubstr(text("rank ", kOddRank, " runs \"partial allreduce of ")),
                                     HasSubstr(text("rank ", kOddRank, " has \"", odd_item, '"')),
                                     AnyOf(HasSubstr("rank 0 has \"" + item), HasSubstr("rank 2 has \"" + item),
                                           HasSubstr("rank 0 \"" + item), HasSubstr("rank 2 \"" + item))));
  }
}

/// Ranks at a board (0: all at one, 1: none), and whether there is memory for one at all.
struct Where {
  int seats = 0;
  bool shared = true;
};

class Disagreement : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    // Enough memory for the ranks to send messages.
    const auto little = std::to_string(JobMemory::bytes_needed(kRanks, 0) + 100'000);
    if (!GetParam().shared) ::setenv("STRETTO_SHM_LIMIT", little.c_str(), 1);
  }
  void TearDown() override { ::unsetenv("STRETTO_SHM_LIMIT"); }

  Made with(std::vector<BucketSpec> buckets) const { return {std::move(buckets), {.seats = GetParam().seats}}; }
};

TEST_P(Disagreement, NamesABucketOfAnotherSizeThoughTheTotalIsTheSame) {
  const auto errors = errors_of(with({{DataType::float32, 1000}, {DataType::float32, 10}}),
                                with({{DataType::float32, 10}, {DataType::float32, 1000}}));
  expect_named(errors, "bucket 0: 10 float32", "bucket 0: 1000 float32");
}

TEST_P(Disagreement, NamesABucketOfAnotherTypeThoughTheBytesAreTheSame) {
  const auto errors = errors_of(with({{DataType::float32, 10}, {DataType::float64, 5}}),
                                with({{DataType::float32, 10}, {DataType::int64, 5}}));
  expect_named(errors, "bucket 1: 5 int64", "bucket 1: 5 float64");
}

TEST_P(Disagreement, NamesWhatWasAppliedBefore) {
  Made made = with({{DataType::float32, 10}}), odd = made;
  made.options.full_every = odd.options.full_every = 7;
  odd.options.batches_before = 3;
  expect_named(errors_of(made, odd), "batches before round 0: 3", "batches before round 0: 0");
}

TEST_P(Disagreement, TellsLongListsOfBucketsApart) {
  // Longer than the part of a description that is kept, and different at the end alone.
  Made made = with({});
  for (std::uint64_t i = 0; i < 4000; ++i) made.buckets.push_back({DataType::float32, 1 + i % 2});
  Made odd = made;
  std::swap(odd.buckets[3998], odd.buckets[3999]);
  for (const Error& error : errors_of(made, odd)) {
    EXPECT_EQ(error.code, Errc::bad_input) << error.message;
    EXPECT_THAT(error.message, HasSubstr(text("rank ", kOddRank, " runs \"partial allreduce of 4000 buckets")));
  }
}

TEST_P(Disagreement, AnotherKindOfCollectiveIsNamedToo) {
  run_thread_job(kRanks, [&](Engine& engine) {
    EXPECT_EQ(engine.host().arena != nullptr, GetParam().shared);
    if (engine.rank() == kOddRank) {
      Barrier barrier(engine);
      EngineDriver driver(engine);
      const auto result = barrier.run(driver, driver.deadline(60s));
      EXPECT_TRUE(!result && result.error().code == Errc::bad_input);
      return true;
    }
    const Made mine = with({{DataType::float32, 10}});
    PartialAllreduce allreduce(engine, mine.buckets, mine.options);
    EngineDriver driver(engine);
    const auto result = allreduce.exchange(driver, driver.deadline(60s), [](const RoundResult&) {});
    EXPECT_FALSE(result);
    if (!result) {
      EXPECT_EQ(result.error().code, Errc::bad_input) << result.error().message;
      EXPECT_THAT(result.error().message, HasSubstr("\"barrier\""));
    }
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(, Disagreement, testing::Values(Where{0}, Where{1}, Where{2}, Where{1, false}),
                         [](const auto& info) {
                           const Where& where = info.param;
                           if (!where.shared) return std::string("WithoutSharedMemory");
                           return where.seats == 0   ? std::string("OneBoard")
                                  : where.seats == 1 ? std::string("Messages")
                                                     : std::string("SeveralBoards");
                         });

}  // namespace
}  // namespace stretto
