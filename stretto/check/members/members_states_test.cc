// Members that change, of two or three processes: every state that they can reach, by every order of steps, with one
// fault at any point.

#include <gtest/gtest.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <deque>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/check/members/changing_job.h"

namespace stretto {
namespace {

using MembersFault = std::function<void(ChangingJob&)>;

/// Breadth first. The fault happens at most once; a job in which it does not is one of the states, too.
class MembersStates {
 public:
  MembersStates(const MasterOptions& master, const CarriedOptions& carried, int members, MembersFault fault)
      : begin_(master, carried), fault_(std::move(fault)) {
    for (int member = 0; member < members; ++member) begin_.come();
    begin_.start_master();
  }

  /// How many there are, or so many that `most` is reached.
  std::size_t search(std::size_t most) {
    add({begin_, false});
    while (!frontier_.empty() && wrong.empty() && seen_.size() < most) {
      const State state = std::move(frontier_.front());
      frontier_.pop_front();
      go_on_from(state);
    }
    return seen_.size();
  }

  std::string wrong;
  std::size_t ends = 0;

 private:
  struct State {
    ChangingJob job;
    bool had_fault;
  };
  struct Hash {
    std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& print) const { return print.first; }
  };

  void go_on_from(const State& state) {
    const auto steps = state.job.steps();
    for (const ChangingJob::Step& step : steps) {
      State next = state;
      next.job.take(step);
      add(std::move(next));
    }
    if (!state.had_fault && !state.job.living().empty()) {
      State next = state;
      fault_(next.job);
      next.had_fault = true;
      add(std::move(next));
    }
    if (!steps.empty()) return;
    State last = state;
    for (int second = 0; second < 3; ++second) last.job.pass_time();
    if (!last.job.steps().empty()) return add(std::move(last));
    ++ends;
    last.job.check_end();
    wrong = last.job.wrong();
  }
  void add(State state) {
    wrong = state.job.wrong();
    std::vector<std::int64_t> words{state.had_fault};
    state.job.describe(words);
    const XXH128_hash_t print = XXH3_128bits(words.data(), words.size() * sizeof(words[0]));
    if (seen_.insert({print.low64, print.high64}).second) frontier_.push_back(std::move(state));
  }

  ChangingJob begin_;
  MembersFault fault_;
  std::deque<State> frontier_;
  std::unordered_set<std::pair<std::uint64_t, std::uint64_t>, Hash> seen_;
};

/// Two members may be there; those that begin do so together, so that it is the fault alone that changes them.
constexpr MasterOptions kTwo{.least = 1, .most = 2, .gather = std::chrono::seconds(1)};
constexpr MasterOptions kBoth{.least = 2, .most = 3};

void expect_right(MembersStates all, std::size_t states) {
  // How many depends a little on the order: what a state shows of time is less than all.
  EXPECT_NEAR(static_cast<double>(all.search(2 * states)), static_cast<double>(states),
              0.01 * static_cast<double>(states));
  EXPECT_EQ(all.wrong, "");
  EXPECT_GT(all.ends, 0u);
}

CarriedOptions one_batch() {
  return {.batches = 1, .max_lag = 1, .policy = Policy::Kind::quorum, .quorum = 1, .publishes = false};
}
CarriedOptions two_batches(Policy::Kind policy = Policy::Kind::quorum, std::size_t quorum = 1) {
  return {.batches = 2, .max_lag = 1, .policy = policy, .quorum = quorum, .publishes = false};
}

void lose_the_second(ChangingJob& job) {
  job.lose(1);
}
void change_the_master(ChangingJob& job) {
  for (const std::size_t master : job.living_masters()) job.lose_master(master);
  job.start_master();
}
void suspect_the_second(ChangingJob& job) {
  job.stay_excluded();
  job.suspect(1);
}
void let_one_come(ChangingJob& job) {
  job.come();
}
void let_the_second_leave(ChangingJob& job) {
  job.leave(1);
}

TEST(MembersStates, Crash) {
  expect_right({kTwo, two_batches(), 2, lose_the_second}, 29'872);
  expect_right({kTwo, two_batches(Policy::Kind::quorum, 2), 2, lose_the_second}, 6'523);
  expect_right({kTwo, two_batches(Policy::Kind::solo, 0), 2, lose_the_second}, 28'655);
}

TEST(MembersStates, CrashOfTheMaster) {
  expect_right({kBoth, two_batches(), 2, change_the_master}, 59'097);
}

TEST(MembersStates, FalseSuspicion) {
  expect_right({kTwo, one_batch(), 2, suspect_the_second}, 98'694);
}

TEST(MembersStates, OneComes) {
  expect_right({kTwo, two_batches(), 1, let_one_come}, 7'507);
}

/// Worlds that begin with an average of the models, in which the second may be lost, or be the only one that has taken
/// it.
TEST(MembersStates, CrashWhereModelsAreAveraged) {
  CarriedOptions averages = two_batches();
  averages.average_every = 2;
  expect_right({kTwo, averages, 2, lose_the_second}, 8'596);
}

/// These have no end: with each view members may come to hold different rounds, so that the leaver is held back again.
TEST(MembersStates, OneLeaves) {
  constexpr std::size_t kSome = 60'000;
  MembersStates some(kTwo, one_batch(), 2, let_the_second_leave);
  EXPECT_GE(some.search(kSome), kSome);
  EXPECT_EQ(some.wrong, "");
  EXPECT_GT(some.ends, 0u);
}

}  // namespace
}  // namespace stretto
