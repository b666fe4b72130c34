#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/papers/pairs/easgd.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(ElasticOptions, HaveDefaultsByTheNumberOfRanks) {
  const ElasticOptions four = elastic_options({}, 4);
  EXPECT_DOUBLE_EQ(four.alpha, 0.225);
  EXPECT_DOUBLE_EQ(four.beta, 0.9);
  const ElasticOptions given = elastic_options({.algorithm = {{"alpha", "0.1"}}}, 4);
  EXPECT_DOUBLE_EQ(given.beta, 0.4);
}

TEST(ElasticOptions, RefuseWhatDiverges) {
  for (const char* alpha : {"0", "0.5", "1"}) {
    try {
      check_elastic_options({.algorithm = {{"alpha", alpha}}}, 4);
      ADD_FAILURE() << alpha;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("below 0.5 (2 / ranks)"));
    }
  }
  EXPECT_THROW(check_elastic_options({.algorithm = {{"beta", "2"}}}, 4), UsageError);
  EXPECT_THROW(check_elastic_options({.local_steps = 0}, 4), UsageError);
  EXPECT_NO_THROW(check_elastic_options({.algorithm = {{"alpha", "0.49"}}}, 4));
}

TEST(ElasticOptions, WarnFromWhereModelsSwing) {
  EXPECT_EQ(elastic_warning({.alpha = 0.225, .beta = 0.9}, 4), "");
  EXPECT_EQ(elastic_warning({.alpha = 0.2499, .beta = 0.9}, 4), "");
  EXPECT_EQ(elastic_warning({.alpha = 0.25, .beta = 1}, 4),
            "alpha 0.25 with 4 ranks: from 0.25 (1 / ranks) on the models swing about the center before they come "
            "closer; 0.225 is the default");
}

}  // namespace
}  // namespace stretto
