#include "stretto/membership/views/member_place.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {
namespace {

TEST(MemberPlace, IsWrittenAndRead) {
  for (const std::string etcd : {"", "etcd://10.0.0.1:2379,10.0.0.2:2379/train"}) {
    const MemberPlace place{.host = "fd77::1",
                            .port = 40123,
                            .number = 17,
                            .place = 7,
                            .most = 8,
                            .patience = std::chrono::seconds(300),
                            .token = new_token(),
                            .etcd = etcd};
    const auto read = MemberPlace::decoded(place.encoded()).or_throw();
    EXPECT_EQ(read.host, place.host);
    EXPECT_EQ(read.port, place.port);
    EXPECT_EQ(read.number, place.number);
    EXPECT_EQ(read.place, place.place);
    EXPECT_EQ(read.most, place.most);
    EXPECT_EQ(read.patience, place.patience);
    EXPECT_EQ(read.token, place.token);
    EXPECT_EQ(read.etcd, place.etcd);
  }
}

TEST(MemberPlace, RefusesWhatIsNone) {
  const std::string token = digits_of(new_token());
  for (const std::string& words : std::vector<std::string>{
           "", "1/2/0/3/0/" + token, ":1/2/0/3/0/" + token, "h1:1/2/0/3/0/" + token.substr(1), "h1:0/2/0/3/0/" + token,
           "h1:65536/2/0/3/0/" + token, "h1:1/-2/0/3/0/" + token, "h1:1/2/0/0/0/" + token, "h1:1/2/3/3/0/" + token,
           "h1:1/2/-1/3/0/" + token, "h1:1/2/0/3", "h1:1/2/0/3/" + token, "h1:1/2/0/3/-1/" + token,
           "h1:1/2/0/3/9999999999/" + token, "h1:1/2/0/3/0/" + token + "/", "h1: 1/2/0/3/0/" + token,
           "h1:a/b/c/d/e/" + token, "h1:1/99999999999999999999/0/3/0/" + token,
           std::string("h1:1/2/0/3/0/\0", 14) + token}) {
    EXPECT_EQ(MemberPlace::decoded(words).error().code, Errc::bad_input) << words;
  }
}

TEST(MemberPlace, IsThatOfTheEnvironment) {
  ::unsetenv(MemberPlace::kVariable);
  EXPECT_FALSE(member_place());
  const MemberPlace place{.port = 40123, .number = 17, .most = 8, .token = new_token()};
  ::setenv(MemberPlace::kVariable, place.encoded().c_str(), 1);
  EXPECT_EQ(member_place()->number, 17u);
  ::setenv(MemberPlace::kVariable, "127.0.0.1:40123/17", 1);
  EXPECT_THROW((void)member_place(), UsageError);
  ::unsetenv(MemberPlace::kVariable);
}

}  // namespace
}  // namespace stretto
