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
    ASSERT_EQ(log_->commit(view_after(log_->read().or_throw().view), pool_->words_of(next)), Written::done);
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
