#include "stretto/membership/views/master.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace stretto {
namespace {

using namespace std::chrono_literals;
using Kind = MasterAction::Kind;

/// A master over a register in memory, and what it has said to whom.
class MasterOverMemory : public testing::Test {
 protected:
  void start(MasterOptions options, TimePoint now = {}) {
    master_ = std::make_unique<Master>(options, now);
    follow();
  }
  void hello(MemberNumber number, std::map<std::string, std::string> terms = {{"model", "a"}}) {
    master_->hello({.number = number, .host = "h", .terms = std::move(terms)});
    follow();
  }
  void report(MemberNumber number, RoundsHeld held, bool leaving = false, bool pending = false) {
    const std::uint64_t epoch = cell_.read().value().view.epoch;
    master_->reported({number, epoch, {.held = held, .pending = pending}, leaving});
    follow();
  }
  void begun(const std::vector<MemberNumber>& numbers) {
    for (const MemberNumber number : numbers) master_->begun(number, view().epoch);
    follow();
  }
  void follow() {
    for (auto actions = master_->take_actions(); !actions.empty(); actions = master_->take_actions()) {
      for (const MasterAction& action : actions) {
        said_.push_back(action);
        if (action.kind == Kind::read) master_->read(cell_.read());
        if (action.kind == Kind::end) master_->ended(cell_.end(action.epoch, action.how));
        if (action.kind == Kind::commit) master_->committed(cell_.commit(action.content->view), action.content->view);
      }
    }
  }
  View view() { return cell_.read().value().view; }
  /// Whom it has told so since the last call.
  std::vector<MemberNumber> told(Kind kind) {
    std::vector<MemberNumber> numbers;
    for (const MasterAction& action : said_) {
      if (action.kind == kind) numbers.push_back(action.to);
    }
    said_.clear();
    return numbers;
  }
  /// Three members that have begun the first view.
  void begin_with_three(MasterOptions options = {.least = 1, .most = 4, .gather = 1s}) {
    start(options);
    for (const MemberNumber number : {0, 1, 2}) hello(number);
    master_->tick({2s});
    follow();
    ASSERT_EQ(view().members.size(), 3u);
    begun({0, 1, 2});
    said_.clear();
  }

  MemoryRegister cell_;
  std::unique_ptr<Master> master_;
  std::vector<MasterAction> said_;
};

TEST_F(MasterOverMemory, TakesInTogetherWhoComesWhenTheJobIsUnderWay) {
  begin_with_three({.least = 1, .most = 8, .gather = 1s, .gather_more = 500ms});
  hello(3);
  master_->tick({2400ms});
  follow();
  EXPECT_THAT(told(Kind::freeze), testing::IsEmpty());
  hello(4);
  master_->tick({2800ms});
  follow();
  EXPECT_THAT(told(Kind::freeze), testing::IsEmpty());
  master_->tick({2900ms});
  follow();
  EXPECT_THAT(told(Kind::freeze), testing::UnorderedElementsAre(0, 1, 2)) << "the others have nothing to stop";
  report(0, 1), report(1, 1), report(2, 1);
  EXPECT_TRUE(view().has(3) && view().has(4));
}

TEST_F(MasterOverMemory, StopsNobodyForALeaveBeforeTheRegisterAnswers) {
  begin_with_three();
  master_->tick({10s});
  master_->leaving(2);
  const auto reads = [this] {
    const auto actions = master_->take_actions();
    return actions.size() == 1 && actions[0].kind == Kind::read;
  };
  ASSERT_TRUE(reads());
  master_->read(Error{Errc::timeout, "it is away"});
  master_->tick({10500ms});
  EXPECT_TRUE(master_->take_actions().empty());
  EXPECT_THAT(master_->waiting(), testing::HasSubstr("it is away"));
  master_->tick({11s});
  ASSERT_TRUE(reads());
  master_->read(cell_.read());
  follow();
  EXPECT_THAT(told(Kind::freeze), testing::UnorderedElementsAre(0, 1, 2));
  report(0, 1), report(1, 1), report(2, 1, /*leaving=*/true);
  EXPECT_FALSE(view().has(2));
}

TEST_F(MasterOverMemory, StopsTheOthersForALossAtOnce) {
  begin_with_three();
  master_->tick({10s});
  master_->lost(2);
  follow();
  EXPECT_THAT(told(Kind::read), testing::IsEmpty());
  EXPECT_EQ(master_->phase(), Master::Phase::freezing);
}

TEST_F(MasterOverMemory, BeginsWithTheModelOfTheFirst) {
  begin_with_three();
  EXPECT_EQ(view().epoch, 1u);
  EXPECT_EQ(view().members[0].held, 0);
  EXPECT_EQ(view().members[1].held, kNoModel);
  EXPECT_EQ(view().next_number, 3u);
  EXPECT_EQ(view().terms.at("model"), "a");
}

TEST_F(MasterOverMemory, NamesThoseThatGiveTheirState) {
  begin_with_three();
  hello(3);
  master_->tick({9s});
  follow();
  const auto answer = [&](MemberNumber number, RoundsHeld held, bool leaving, bool gives) {
    master_->reported({number, view().epoch, {.held = held, .pending = true}, leaving, gives});
    follow();
  };
  answer(0, 2, false, true), answer(1, 1, false, true), answer(2, 2, true, true);
  EXPECT_EQ(view().epoch, 2u);
  EXPECT_EQ(view().gives, (std::vector<MemberNumber>{0})) << "not one that lacks a round, nor one that leaves";
}

TEST_F(MasterOverMemory, CountsWhatALeaverTakesAlong) {
  begin_with_three();
  master_->leaving(2);
  follow();
  master_->reported({0, 1, {.held = 2, .applied = {{0, 5}, {2, 3}}}});
  master_->reported({1, 1, {.held = 2, .applied = {{0, 5}, {2, 3}}}});
  master_->reported({2, 1, {.held = 2, .applied = {{0, 5}, {2, 3}}, .beside = 4}, true});
  said_.clear();
  follow();
  ASSERT_TRUE(view().has_departed(2));
  EXPECT_EQ(view().left, (std::map<MemberNumber, std::uint64_t>{{2, 7}}));
  const auto commit = std::ranges::find(said_, Kind::commit, &MasterAction::kind);
  ASSERT_NE(commit, said_.end());
  EXPECT_EQ(commit->applied.of(2), 7u);
}

TEST_F(MasterOverMemory, KeepsTheRowsOfAGridWhileTheyFit) {
  begin_with_three({.least = 1, .most = 7, .gather = 1s});
  EXPECT_EQ(view().rows, 2);
  for (const MemberNumber number : {3, 4, 5, 6}) hello(number);
  report(0, 1), report(1, 1), report(2, 1);
  ASSERT_EQ(view().members.size(), 7u);
  EXPECT_EQ(view().rows, 3);
  master_->lost(6);
  follow();
  for (const MemberNumber number : {0, 1, 2, 3, 4, 5}) report(number, 1);
  ASSERT_EQ(view().members.size(), 6u);
  EXPECT_EQ(view().rows, 3) << "and not 2";
}

TEST_F(MasterOverMemory, OneThatComesLaterThanTheNextNumberComesIn) {
  begin_with_three({.least = 1, .most = 8, .gather = 1s});
  begun({0, 1, 2});
  hello(4);
  master_->tick({9s});
  follow();
  report(0, 1), report(1, 1), report(2, 1);
  ASSERT_TRUE(view().has(4));
  begun({0, 1, 2, 4});
  hello(3);
  master_->tick({20s});
  follow();
  report(0, 2), report(1, 2), report(2, 2), report(4, 2);
  EXPECT_TRUE(view().has(3));
  EXPECT_FALSE(view().may_come_in(3));
}

TEST_F(MasterOverMemory, GoesOnFromTheMostRoundsThatASurvivorHolds) {
  begin_with_three();
  master_->lost(0);
  follow();
  EXPECT_EQ(told(Kind::freeze), (std::vector<MemberNumber>{1, 2}));
  report(1, 4);
  EXPECT_EQ(view().epoch, 1u) << "before all have answered";
  report(2, 6);
  EXPECT_EQ(view().epoch, 2u);
  EXPECT_EQ(view().complete, 6u);
  EXPECT_EQ(view().members[0].number, 2u) << "the last takes the place of the lost one";
  EXPECT_EQ(view().members[1].held, 4);
  EXPECT_EQ(told(Kind::kill), std::vector<MemberNumber>{0});
  EXPECT_TRUE(view().departed.empty());
}

TEST_F(MasterOverMemory, LetsNobodyComeInBeforeAllHaveBegun) {
  begin_with_three();
  master_->lost(0);
  follow();
  report(1, 1), report(2, 1);
  said_.clear();
  hello(7);
  master_->tick({9s});
  follow();
  EXPECT_TRUE(told(Kind::freeze).empty());
  begun({1, 2});
  EXPECT_EQ(told(Kind::freeze), (std::vector<MemberNumber>{2, 1}));
}

TEST_F(MasterOverMemory, HoldsALeaverWhileAnotherMemberIsBehind) {
  begin_with_three();
  master_->leaving(0);
  follow();
  report(0, 5, true), report(1, 5), report(2, 4);
  EXPECT_EQ(view().epoch, 2u);
  EXPECT_TRUE(view().has(0));
  begun({0, 1, 2});
  report(0, 6, true, true), report(1, 6), report(2, 6);
  EXPECT_TRUE(view().has(0)) << "something of it is pending";
  begun({0, 1, 2});
  report(0, 7, true), report(1, 7), report(2, 7);
  EXPECT_EQ(view().departed, std::vector<MemberNumber>{0});
  EXPECT_TRUE(told(Kind::kill).empty());
}

TEST_F(MasterOverMemory, GivesUpAJobThatAMemberLeavesWithTooFew) {
  begin_with_three({.least = 3, .most = 3, .wait_to_leave = 60s});
  master_->leaving(1);
  follow();
  master_->tick({50s});
  follow();
  EXPECT_TRUE(told(Kind::freeze).empty()) << "others may come";
  master_->tick({70s});
  follow();
  report(0, 2), report(1, 2, true), report(2, 2);
  EXPECT_EQ(cell_.read().value().end, JobEnd::given_up);
  ASSERT_EQ(said_.at(1).kind, Kind::freeze);
  const auto end = std::ranges::find(said_, Kind::end, &MasterAction::kind);
  EXPECT_EQ(end->words, "the job is given up: fewer than 3 members are left without those that leave");
}

TEST_F(MasterOverMemory, LetsALeaverGoWhenAnotherHasComeInItsPlace) {
  begin_with_three({.least = 3, .most = 3, .wait_to_leave = 60s});
  master_->leaving(1);
  follow();
  master_->tick({50s});
  hello(3);
  report(0, 2), report(1, 2, true), report(2, 2);
  EXPECT_EQ(view().departed, std::vector<MemberNumber>{1});
  EXPECT_TRUE(view().has(3));
  master_->tick({90s});
  follow();
  EXPECT_EQ(cell_.read().value().end, JobEnd::none);
}

TEST_F(MasterOverMemory, EndsWithItsLastMembers) {
  begin_with_three({.least = 1, .most = 3, .wait_to_leave = 0s, .gather = 1s});
  for (const MemberNumber number : {0, 1, 2}) master_->leaving(number);
  follow();
  report(0, 2, true), report(1, 2, true), report(2, 2, true, true);
  EXPECT_EQ(view().departed, (std::vector<MemberNumber>{0, 1})) << "something of the third is pending";
  begun({2});
  said_.clear();
  report(2, 3, true);
  EXPECT_EQ(cell_.read().value().end, JobEnd::given_up);
  EXPECT_EQ(said_.front().words, "the job is over before its end: its last member leaves");
}

TEST_F(MasterOverMemory, EndsWhenAllOfTheViewAreDone) {
  begin_with_three();
  master_->done(0, 1), master_->done(1, 1), master_->done(2, 0);
  follow();
  EXPECT_EQ(cell_.read().value().end, JobEnd::none);
  master_->done(2, 1);
  follow();
  EXPECT_EQ(cell_.read().value().end, JobEnd::done);
  EXPECT_EQ(told(Kind::tell), (std::vector<MemberNumber>{0, 1, 2}));
}

TEST_F(MasterOverMemory, BeginsAnewWhenItsFirstIsLostBeforeAllHaveBegun) {
  start({.least = 1, .most = 4, .gather = 1s});
  for (const MemberNumber number : {0, 1, 2}) hello(number);
  master_->tick({2s});
  follow();
  master_->begun(0, 1);
  master_->lost(0);
  follow();
  report(1, kNoModel), report(2, kNoModel);
  EXPECT_EQ(view().complete, 0u);
  ASSERT_EQ(view().members.size(), 2u);
  EXPECT_EQ(view().members[0].held, 0);
  EXPECT_EQ(view().members[1].held, kNoModel);
  // The next one has taken over the model of the first.
  master_->lost(1);
  follow();
  report(2, 0);
  EXPECT_EQ(view().members.size(), 1u);
  EXPECT_EQ(cell_.read().value().end, JobEnd::none);
}

TEST_F(MasterOverMemory, TakesInSparesWhereAllAreLostBeforeTheyHaveBegun) {
  for (const bool has_said : {true, false}) {
    cell_ = MemoryRegister();
    start({.least = 2, .most = 3, .gather = 1s});
    for (const MemberNumber number : {0, 1, 2, 3, 4}) hello(number);
    EXPECT_EQ(view().members.size(), 3u);
    master_->lost(0);
    follow();
    if (has_said) report(1, kNoModel);
    master_->lost(1), master_->lost(2);
    follow();
    EXPECT_EQ(view().epoch, has_said ? 2u : 1u) << "else nobody knows that the first world has not begun";
    EXPECT_EQ(view().has(3) && view().has(4), has_said);
    EXPECT_EQ(cell_.read().value().end, has_said ? JobEnd::none : JobEnd::given_up);
    EXPECT_EQ(view().members.front().held, 0);
  }
}

TEST_F(MasterOverMemory, GivesUpAJobWhoseModelIsLost) {
  begin_with_three();
  for (const MemberNumber number : {0, 1, 2}) master_->lost(number);
  follow();
  hello(5);
  EXPECT_EQ(cell_.read().value().end, JobEnd::given_up);
}

TEST_F(MasterOverMemory, GathersThoseThatComeAfterItsFirstTick) {
  start({.least = 1, .most = 2, .gather = 10s}, {1000s});
  hello(0);
  master_->tick({1000s + 100ms});
  follow();
  EXPECT_EQ(view().epoch, 0u);
  hello(1);
  EXPECT_TRUE(view().has(0) && view().has(1));
}

TEST_F(MasterOverMemory, GathersNoMoreThanTheFirst) {
  start({.least = 1, .most = 4, .gather = 10s, .first = 2});
  hello(0);
  EXPECT_EQ(view().epoch, 0u);
  hello(1);
  EXPECT_EQ(view().members.size(), 2u);
}

TEST_F(MasterOverMemory, GathersNoneThatAreLostBeforeTheyCome) {
  start({.least = 1, .most = 3, .gather = 10s});
  hello(0), hello(2);
  EXPECT_EQ(view().epoch, 0u);
  master_->lost(1);
  follow();
  EXPECT_TRUE(view().has(0) && view().has(2));
}

TEST_F(MasterOverMemory, WaitsForMoreOnceOneHasCome) {
  start({.least = 3, .most = 3});
  EXPECT_EQ(master_->waiting(), "");
  hello(0);
  EXPECT_EQ(master_->waiting(), "1 of at least 3 members are there");
}

TEST_F(MasterOverMemory, WaitsForTheLeastNumberAndThenGivesUp) {
  begin_with_three({.least = 3, .most = 3, .wait = 60s});
  master_->lost(1);
  follow();
  report(0, 2), report(2, 2);
  EXPECT_EQ(view().epoch, 1u);
  EXPECT_NE(master_->waiting().find("2 of at least 3"), std::string::npos) << master_->waiting();
  master_->tick({50s});
  follow();
  EXPECT_EQ(cell_.read().value().end, JobEnd::none);
  master_->tick({70s});
  follow();
  EXPECT_EQ(cell_.read().value().end, JobEnd::given_up);
}

TEST_F(MasterOverMemory, LooksAtALearnerBeforeItCounts) {
  begin_with_three();
  hello(4, {{"model", "b"}});
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(said_[0].kind, Kind::refuse);
  EXPECT_EQ(said_[0].words, "model is b here, and a in the job");
}

TEST_F(MasterOverMemory, TakesANumberInOnce) {
  begin_with_three();
  master_->lost(1);
  follow();
  report(0, 2), report(2, 2);
  begun({0, 2});
  said_.clear();
  hello(1);
  EXPECT_EQ(told(Kind::tell), std::vector<MemberNumber>{1}) << "so that it knows that it is excluded";
  master_->tick({60s});
  follow();
  EXPECT_TRUE(told(Kind::freeze).empty());
}

TEST_F(MasterOverMemory, ExcludesWhomOthersWaitForInACall) {
  begin_with_three({.least = 1, .most = 3, .gather = 1s, .evict = 5s});
  const auto pass = [this](Duration until) {
    master_->tick(TimePoint{until});
    follow();
  };
  master_->waits(0, true);
  pass(6s);
  master_->waits(1, true);
  pass(7s);
  EXPECT_TRUE(told(Kind::freeze).empty());
  pass(8s);
  EXPECT_EQ(told(Kind::freeze), (std::vector<MemberNumber>{0, 1}));
  report(0, 1), report(1, 1);
  EXPECT_FALSE(view().has(2));
  pass(60s);
  EXPECT_TRUE(view().has(0)) << "nobody waits";
}

TEST_F(MasterOverMemory, ExcludesNobodyThatMovesNowAndThen) {
  begin_with_three({.least = 1, .most = 3, .gather = 1s, .evict = 5s});
  for (int second = 3; second < 60; second += 4) {
    for (const MemberNumber number : {0, 1}) master_->waits(number, true);
    master_->tick(TimePoint{std::chrono::seconds(second)});
    follow();
    for (const MemberNumber number : {0, 1}) master_->waits(number, false);
  }
  EXPECT_EQ(view().members.size(), 3u);
  for (const MemberNumber number : {0, 1, 2}) master_->waits(number, true);
  master_->tick(TimePoint{100s});
  master_->tick(TimePoint{200s});
  follow();
  EXPECT_EQ(view().members.size(), 3u) << "all wait: it is nobody's fault";
}

TEST_F(MasterOverMemory, ExcludesWhomTheOthersWaitForToBegin) {
  start({.least = 1, .most = 3, .gather = 1s, .evict = 5s});
  for (const MemberNumber number : {0, 1, 2}) hello(number);
  begun({0});
  master_->waits(1, true);
  master_->tick(TimePoint{4s});
  EXPECT_TRUE(told(Kind::freeze).empty());
  master_->tick(TimePoint{6s});
  follow();
  EXPECT_EQ(told(Kind::freeze), (std::vector<MemberNumber>{0, 1})) << "one has begun, and computes";
}

TEST_F(MasterOverMemory, ExcludesWhomAViewWaitsFor) {
  begin_with_three({.least = 1, .most = 3, .gather = 1s, .evict = 5s});
  master_->lost(0);
  follow();
  report(1, 1);
  master_->tick(TimePoint{8s});
  follow();
  EXPECT_EQ(view().epoch, 2u) << "without the one that has not answered";
  EXPECT_FALSE(view().has(2));
}

TEST_F(MasterOverMemory, KeepsMoreThanTheMostAsSpares) {
  begin_with_three({.least = 1, .most = 3, .gather = 1s});
  hello(5);
  EXPECT_TRUE(told(Kind::freeze).empty());
  master_->lost(2);
  follow();
  EXPECT_EQ(told(Kind::freeze), (std::vector<MemberNumber>{0, 1}));
  report(0, 1), report(1, 1);
  EXPECT_TRUE(view().has(5));
}

TEST_F(MasterOverMemory, DecidesInThePlaceOfAMasterThatIsGone) {
  begin_with_three();
  master_ = std::make_unique<Master>(MasterOptions{.most = 3}, TimePoint{});
  master_->hello({.number = 0, .host = "h", .epoch = 1, .stopped = 1});  // before the register has answered
  follow();
  EXPECT_EQ(told(Kind::freeze), (std::vector<MemberNumber>{0, 1, 2}));
}

TEST_F(MasterOverMemory, ReadsTheRegisterWhenItHasBeenOvertaken) {
  begin_with_three();
  View next = view();
  next.epoch = 2;
  ASSERT_EQ(cell_.commit(next), Written::done);
  master_->begun(0, 2);
  follow();
  EXPECT_EQ(master_->known()->view.epoch, 2u);
  master_->begun(0, 3);  // no register knows of it
  follow();
  EXPECT_NE(master_->waiting().find("epoch 3"), std::string::npos) << master_->waiting();
}

}  // namespace
}  // namespace stretto
