#include <gmock/gmock.h>

#include "command/bench/timed_allreduce.h"

namespace stretto::command {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kHeader = "library,ranks,bytes,repetition,calls,microseconds,bus_gb_per_s,background,loaded,busy\n";

TEST(MeasuredAllreduces, AreMediansOfQuietRepetitions) {
  MeasuredAllreduces measured;
  measured.add("a.csv", kHeader +
                            "ours,2,64,0,9,3,0,0.000,0,0\nours,2,64,1,9,1,0,0.000,0,0\nours,2,64,2,9,2,0,nan,0,0\n"
                            "ours,2,64,3,9,99,0,0.500,1,0\n");
  measured.add("b.csv", kHeader + "theirs,2,4,0,9,5,0,0.000,0,0\nours,2,4,0,9,4,0,0.000,0,0\n");
  EXPECT_EQ(measured.medians_csv(),
            "library,ranks,bytes,microseconds,low,high,gb_per_s\n"
            "ours,2,4,4,4,4,0.001\nours,2,64,2,1,3,0.032\ntheirs,2,4,5,5,5,0.0008\n");
}

void expect_rejected(const std::string& csv, const std::string& what) {
  MeasuredAllreduces measured;
  try {
    measured.add("a.csv", csv);
    FAIL() << csv;
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a.csv"), HasSubstr(what)));
  }
}

TEST(MeasuredAllreduces, MalformedFilesAreNamed) {
  expect_rejected("", "library");
  expect_rejected("a,b\n1,2\n", "library");
  expect_rejected(kHeader, "no measurement");
  expect_rejected(kHeader + "ours,2,64\n", "line 2");
  expect_rejected(kHeader + "ours,2,64,0,9,3,0,0,0,0\nours,2,64,1,9,fast,0,0,0,0\n", "line 3: microseconds is 'fast'");
  expect_rejected(kHeader + "ours,0,64,0,9,3,0,0,0,0\n", "ranks");
}

}  // namespace
}  // namespace stretto::command
