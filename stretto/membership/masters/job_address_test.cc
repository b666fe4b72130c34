#include "stretto/membership/masters/job_address.h"

#include <gtest/gtest.h>

#include <string>

#include "stretto/base/error.h"

namespace stretto {
namespace {

TEST(JobAddress, IsReadAndWritten) {
  for (const std::string words : {"29400", "0", "127.0.0.1:29400", "h1.example:1", "[fd77::1]:29400",
                                  "etcd://10.0.0.1:2379,10.0.0.2:2379/train"}) {
    EXPECT_EQ(JobAddress::parse(words).or_throw().to_string(), words);
  }
  EXPECT_EQ(JobAddress::parse("29400").or_throw().host, "");
  EXPECT_EQ(JobAddress::parse("[fd77::1]:29400").or_throw().host, "fd77::1");
  EXPECT_EQ(JobAddress::parse("[fd77::1]:29400").or_throw().port, 29400);
}

TEST(JobAddress, RefusesWhatIsNone) {
  for (const std::string words : {"", ":", ":1", "h1", "h1:", "h1:x", "h1:65536", "h1:-1", "fd77::1:29400", "[]:1",
                                  "h 1:1", "h1:1 ", "h1/2:1", "[h1:1", "h1:1:1", "etcd://h1:1"}) {
    EXPECT_EQ(JobAddress::parse(words).error().code, Errc::bad_input) << words;
  }
}

}  // namespace
}  // namespace stretto
