#include "stretto/membership/hosts/members/kept_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/membership/views/testing/register_conformance.h"
#include "stretto/observe/temporary_folder.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBatches = 400;

/// A pool beside a log, whose process is killed and started again when a seed says so, and the pool as it would be
/// without.
class KilledPool {
 public:
  explicit KilledPool(std::uint64_t seed) : random_(seed) { start(); }

  void run() {
    for (int step = 0; step < 600; ++step) {
      if (random_.below(10) == 0) start();
      if (random_.below(60) == 0) {
        lose(1 + random_.below(5));
      } else {
        take(1 + random_.below(5));
      }
      ASSERT_EQ(pool_->pool() == nullptr, !has_taken_);
      if (has_taken_) {
        ASSERT_EQ(pool_->pool()->numbers(), expected_.numbers()) << "after step " << step;
      }
    }
  }

 private:
  void start() {
    pool_.reset();
    log_.reset();
    log_ = LogRegister::open(folder_.path() + "/log", "a job").or_throw();
    pool_.emplace(*log_, [](const std::string& line) { ADD_FAILURE() << line; });
  }
  void take(MemberNumber member) {
    has_taken_ = true;
    std::uint64_t& taken = taken_[member];
    const std::uint64_t computed = taken - std::min<std::uint64_t>(taken, 1);
    const auto hand_out = [&] { return pool_->hand_out(member, taken, computed, kBatches, 7, {}).or_throw(); };
    const auto batch = hand_out();
    expected_.computed(member, computed);
    ASSERT_EQ(batch, expected_.take(member));
    if (batch && random_.below(3) == 0) {  // the answer is lost, perhaps with its master
      if (random_.below(2) == 0) start();
      ASSERT_EQ(hand_out(), batch);
    }
    if (batch) ++taken;
  }
  /// A view without the member, of whose batches so many count.
  void lose(MemberNumber member) {
    if (!has_taken_) return;
    Pool next = expected_;
    next.give_back(member, random_.below(expected_.in_hand(member).size() + 1), true);
    ASSERT_EQ(log_->commit(view_after(log_->read().or_throw().view), pool_->words_of(&next)), Written::done);
    pool_->commit(next);
    expected_ = next;
  }

  Random random_;
  const TemporaryFolder folder_;
  std::unique_ptr<LogRegister> log_;
  std::optional<KeptPool> pool_;
  Pool expected_{kBatches};
  bool has_taken_ = false;
  std::map<MemberNumber, std::uint64_t> taken_;
};

TEST(KeptPool, GoesOnAfterEachKillAsWithoutIt) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    KilledPool(seed).run();
  }
}

/// A register that several masters share, and its content. It may be away, and then answer nothing, or not say what it
/// has written.
struct SharedContent {
  std::vector<std::string> notes = {};
  bool is_away = false;
};

class SharedCell final : public Register {
 public:
  SharedCell(SharedContent& content, Random& random, std::uint64_t term = 1)
      : content_(content), random_(random), term_(term) {
    (void)read();
  }
  Result<Registered> read() override {
    if (content_.is_away) return Error{Errc::io, "away"};
    beside_ = content_.notes;
    return Registered{};
  }
  Written commit(const View&, const std::string&) override { return Written::refused; }
  Result<void> note(const std::string& line) override {
    const bool has_answer = !content_.is_away && random_.below(20) != 0, is_written = random_.below(2) == 0;
    if (content_.notes.size() != beside_.size()) return Error{Errc::excluded, "another one has written"};
    if (has_answer || (is_written && !content_.is_away)) content_.notes.push_back(line);
    if (!has_answer) return Error{Errc::io, "no answer"};
    beside_.push_back(line);
    return {};
  }
  const std::vector<std::string>& beside() const override { return beside_; }
  Written end(std::uint64_t, JobEnd) override { return Written::refused; }
  std::string why() const override { return {}; }
  bool is_shared() const override { return true; }
  std::uint64_t term() const override { return term_; }

 private:
  SharedContent& content_;
  Random& random_;
  const std::uint64_t term_;
  std::vector<std::string> beside_;
};

/// Masters that begin one after the other while those before them still answer, over one register, and members that go
/// from one to a later one, and may stop asking.
class FollowingMasters {
 public:
  explicit FollowingMasters(std::uint64_t seed) : random_(seed) { begin(); }

  void run() {
    for (int step = 0; step < 4000 && !all_are_out() && !testing::Test::HasFatalFailure(); ++step) {
      now_ = now_ + std::chrono::milliseconds(100);
      if (random_.below(80) == 0) begin();
      if (random_.below(50) == 0) content_.is_away = !content_.is_away && step < 2000;
      Member& member = members_[random_.below(members_.size())];
      if (random_.below(30) == 0 || member.master < masters_.size() - 1 - random_.below(3)) move(member);
      ask(member);
    }
    content_.is_away = false;
    for (int step = 0; step < 400 && !all_are_out(); ++step) {
      now_ = now_ + std::chrono::seconds(2);
      for (Member& member : members_) {
        move(member);
        ask(member);
      }
    }
    EXPECT_EQ(handed_, std::vector<int>(kBatches, 1));
  }

 private:
  struct Member {
    MemberNumber number = 0;
    std::size_t master = 0;
    std::uint64_t taken = 0, asks_until = kBatches;
  };

  void begin() {
    if (content_.is_away) return;
    cells_.push_back(std::make_unique<SharedCell>(content_, random_, cells_.size() + 1));
    masters_.push_back(std::make_unique<KeptPool>(*cells_.back(), [](const std::string&) {}));
  }
  void move(Member& member) {
    member.master += random_.below(masters_.size() - member.master);
    masters_[member.master]->has_come(member.number, member.taken);
  }
  void ask(Member& member) {
    if (member.taken >= member.asks_until) return;  // a program whose loop ends earlier
    const auto batch = masters_[member.master]->hand_out(member.number, member.taken, 0, kBatches, 7, {}, now_);
    if (!batch || !*batch) return;
    if (random_.below(10) == 0) return;  // the answer is lost
    ++handed_[**batch];
    ASSERT_EQ(handed_[**batch], 1) << "batch " << **batch << " of member " << member.number;
    ++member.taken;
  }
  bool all_are_out() const { return std::ranges::count(handed_, 1) == static_cast<std::ptrdiff_t>(kBatches); }

  Random random_;
  SharedContent content_;
  TimePoint now_;
  std::vector<std::unique_ptr<SharedCell>> cells_;
  std::vector<std::unique_ptr<KeptPool>> masters_;
  std::vector<Member> members_{{.number = 0}, {.number = 1, .asks_until = 20}, {.number = 2}, {.number = 3}};
  std::vector<int> handed_ = std::vector<int>(kBatches);
};

TEST(KeptPool, HandsEachBatchOutOnceThoughSeveralMastersDo) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    FollowingMasters(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(KeptPool, GoesOnWhileTheRegisterIsAway) {
  Random random(1);
  SharedContent content;
  SharedCell cell(content, random);
  std::vector<std::string> said;
  KeptPool pool(cell, [&](const std::string& line) { said.push_back(line); });
  TimePoint now;
  std::uint64_t taken = 0;
  const auto ask = [&] {
    return pool.hand_out(0, taken, 0, 1'000'000, 7, {}, now = now + std::chrono::milliseconds(10));
  };
  while (taken < 5000) {
    if (ask()) ++taken;
  }
  EXPECT_LT(content.notes.size(), 50u);
  content.is_away = true;
  while (ask()) ++taken;
  EXPECT_GE(taken, 5200u);
  EXPECT_EQ(said.back(), "no answer: members compute the batches that are noted, and wait then");
  content.is_away = false;
  now = now + std::chrono::seconds(2);
  while (!ask()) continue;
}

TEST(KeptPool, RefusesBatchesThatAreNotThoseOfTheJob) {
  MemoryRegister views;
  KeptPool pool(views, {});
  EXPECT_EQ(pool.hand_out(0, 0, 0, 70, 7, {}).or_throw(), 0u);
  const auto other = pool.hand_out(1, 0, 0, 71, 7, {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "its batches are not those of the job: 71 in all, and of the job 70; expected the same data, batch size, "
            "epochs and seed");
}

}  // namespace
}  // namespace stretto
