#include "stretto/membership/etcd/candidacy.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "stretto/membership/etcd/testing/etcd_server.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr int kLaunchers = 3;

/// Launchers that stand for the office of one job's master.
class CandidacyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::is_there()) GTEST_SKIP() << "there is no etcd";
    server_.emplace();
    for (int number = 0; number < kLaunchers; ++number) {
      launchers_[number] =
          std::make_unique<Candidacy>(server_->address("job"), Candidacy::kShortest,
                                      Candidacy::Hooks{.begin =
                                                           [this, number](std::uint64_t term) {
                                                             EXPECT_GT(term, term_.exchange(term));
                                                             ++begun_;
                                                             ++in_office_;
                                                             return text("launcher:", number);
                                                           },
                                                       .holds = [this](TimePoint until) { until_ = until; },
                                                       .end = [this] { --in_office_; },
                                                       .tell = [this](const std::string&) { ++told_; }});
    }
  }
  std::optional<std::string> named() {
    Etcd etcd({server_->server()});
    return Candidacy::master_in(etcd, "job");
  }
  /// The one in office.
  int holder() {
    wait([this] { return named().has_value(); });
    return named()->back() - '0';
  }
  template <class Is>
  void wait(Is is) {
    const SteadyClock clock;
    for (const TimePoint by = clock.now() + 60s; !is();) {
      ASSERT_LT(clock.now(), by);
      std::this_thread::sleep_for(1ms);
    }
  }

  std::optional<EtcdServer> server_;
  std::atomic<std::uint64_t> term_ = 0;
  std::atomic<int> begun_ = 0, in_office_ = 0, told_ = 0;
  std::atomic<TimePoint> until_{TimePoint()};
  const SteadyClock clock_;
  std::array<std::unique_ptr<Candidacy>, kLaunchers> launchers_;
};

TEST_F(CandidacyTest, OneHasTheOfficeAndAnotherOneAfterIt) {
  for (int left = kLaunchers; left > 0; --left) {
    const int number = holder();
    ASSERT_EQ(in_office_, 1);
    ASSERT_EQ(begun_, kLaunchers + 1 - left);
    launchers_[number].reset();
  }
  EXPECT_EQ(in_office_, 0);
  EXPECT_EQ(named(), std::nullopt);
  EXPECT_EQ(told_, 0);
}

TEST_F(CandidacyTest, ItIsKeptWhileNobodyCanTakeIt) {
  (void)holder();
  server_->end();
  wait([this] { return told_ == 1; });
  EXPECT_GT(clock_.now(), until_.load());
  EXPECT_EQ(in_office_, 1);
  server_->start();
  wait([this] { return told_ == 2; });
  wait([this] { return clock_.now() < until_.load(); });
  (void)holder();
  EXPECT_EQ(in_office_, 1);
}

}  // namespace
}  // namespace stretto
