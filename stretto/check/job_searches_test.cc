#include "stretto/check/job_searches.h"

#include <gtest/gtest.h>

#include "stretto/check/testing/each_search.h"

namespace stretto {
namespace {

TEST(JobSearch, FindsNothingInWhatIsRight) {
  for (const JobSearch& search : job_searches()) expect_nothing_in_what_is_right(search);
}

TEST(JobSearch, FindsNothingForAnyNumberOfRanks) {
  for (const JobSearch& search : job_searches()) expect_nothing_for_any_number_of_ranks(search);
}

TEST(JobSearch, FindsNothingWhateverTheRoundsRunOver) {
  for (const JobSearch& search : job_searches()) {
    if (search.takes_over) expect_nothing_whatever_the_rounds_run_over(search);
  }
}

TEST(JobSearch, IsAFunctionOfTheSeed) {
  for (const JobSearch& search : job_searches()) expect_a_function_of_the_seed(search);
}

}  // namespace
}  // namespace stretto
