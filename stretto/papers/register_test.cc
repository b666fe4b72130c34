#include "stretto/papers/register.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "stretto/base/defect.h"
#include "stretto/check/job_searches.h"
#include "stretto/check/testing/each_search.h"
#include "stretto/ordering/negotiation/cycle_fix.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto {
namespace {

TEST(RegisterPapers, AddsNothingTheSecondTime) {
  const std::size_t recipes_before = recipes().size(), options_before = algorithm_options().size();
  const std::size_t fixes_before = cycle_fixes().size();
  ASSERT_NE(find_recipe("d-psgd"), nullptr) << "main() has registered it";
  register_papers();
  EXPECT_EQ(recipes().size(), recipes_before);
  EXPECT_EQ(algorithm_options().size(), options_before);
  EXPECT_EQ(cycle_fixes().size(), fixes_before);
}

TEST(PaperSearch, FindsNothingInWhatIsRight) {
  for (const JobSearch& search : paper_searches()) expect_nothing_in_what_is_right(search);
}

TEST(PaperSearch, FindsNothingForAnyNumberOfRanks) {
  for (const JobSearch& search : paper_searches()) expect_nothing_for_any_number_of_ranks(search);
}

TEST(PaperSearch, IsAFunctionOfTheSeed) {
  for (const JobSearch& search : paper_searches()) expect_a_function_of_the_seed(search);
}

TEST(AllSearches, EachHasANameOfItsOwnAndEachDefectASearchThatFindsIt) {
  std::set<std::string_view> names;
  for (const JobSearch& search : job_searches()) EXPECT_TRUE(names.insert(search.name).second) << search.name;
  for (const JobSearch& search : paper_searches()) EXPECT_TRUE(names.insert(search.name).second) << search.name;
  for (const PlantedDefect& defect : planted_defects()) EXPECT_TRUE(names.contains(defect.collective)) << defect.name;
}

}  // namespace
}  // namespace stretto
