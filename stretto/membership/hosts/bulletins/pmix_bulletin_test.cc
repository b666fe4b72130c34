#include "stretto/membership/hosts/bulletins/pmix_bulletin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

namespace stretto {
namespace {

using testing::HasSubstr;

class PmixBulletinTest : public testing::Test {
 protected:
  PmixBulletinTest() { setenv("STRETTO_PMIX", STRETTO_FAKE_PMIX, 1); }
  ~PmixBulletinTest() override {
    unsetenv("STRETTO_PMIX");
    unsetenv("FAKE_PMIX");
  }
};

auto num_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

const std::string kLeft = "10.77.0.1:43211/00112233445566778899aabbccddeeff";

TEST_F(PmixBulletinTest, TheOthersFindWhatRank0HasLeft) {
  PmixBulletin first(0, 2), other(1, 2);
  EXPECT_EQ(other.look_up().or_throw(), "");
  first.publish(kLeft).or_throw();
  EXPECT_EQ(other.look_up().or_throw(), kLeft);
}

TEST_F(PmixBulletinTest, OneThatBeginsLateIsAskedAgain) {
  setenv("FAKE_PMIX", "late", 1);
  PmixBulletin bulletin(0, 2);
  Result<void> published = bulletin.publish(kLeft);
  EXPECT_EQ(published.error().code, Errc::unavailable);
  while (!published) {
    EXPECT_EQ(published.error().message, "PMIx, by which the ranks meet: PMIx_Init does not return");
    published = bulletin.publish(kLeft);
  }
  EXPECT_EQ(bulletin.look_up().or_throw(), kLeft);
}

TEST_F(PmixBulletinTest, OneThatDoesNotBeginHoldsNobodyUp) {
  setenv("FAKE_PMIX", "late", 1);
  const auto before = num_threads();
  EXPECT_EQ(PmixBulletin(1, 2).look_up().error().code, Errc::unavailable);
  EXPECT_GT(num_threads(), before) << "it still begins";
  while (num_threads() > before) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // other tests fork
}

TEST_F(PmixBulletinTest, WhatGoesWrongIsSaid) {
  setenv("FAKE_PMIX", "-25", 1);
  EXPECT_EQ(PmixBulletin(1, 2).look_up().error().message,
            "PMIx, by which the ranks meet: PMIx_Init: UNREACHABLE (-25)");
  setenv("STRETTO_PMIX", "/nowhere/libpmix.so", 1);
  const Error error = PmixBulletin(1, 2).look_up().error();
  EXPECT_EQ(error.code, Errc::io);
  EXPECT_THAT(error.message, HasSubstr("/nowhere/libpmix.so: cannot open shared object file"));
  EXPECT_THAT(error.message, HasSubstr("STRETTO_PMIX names another file of it"));
  setenv("STRETTO_PMIX", "libm.so.6", 1);
  EXPECT_THAT(PmixBulletin(1, 2).look_up().error().message, HasSubstr("libm.so.6: it is no library of PMIx"));
}

}  // namespace
}  // namespace stretto
