#include "stretto/membership/hosts/members/master_side.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stretto {
namespace {

using namespace std::chrono_literals;
using Says = ProcessWords::Kind;

/// A register whose next write is made or not, and has no answer.
class ForgetfulRegister final : public Register {
 public:
  enum class Fate { answered, made, not_made };
  Fate next = Fate::answered;
  /// What another master has written beside the view.
  std::vector<std::string> lines = {};

  Result<Registered> read() override { return cell_.read(); }
  using Register::commit;
  Written commit(const View& view, const std::string& words) override {
    const Fate fate = std::exchange(next, Fate::answered);
    if (fate == Fate::not_made) return Written::unknown;
    const Written written = cell_.commit(view, words);
    if (written == Written::done) lines = {words};
    return fate == Fate::made ? Written::unknown : written;
  }
  Result<void> note(const std::string& line) override {
    lines.push_back(line);
    return {};
  }
  const std::vector<std::string>& beside() const override { return lines; }
  Written end(std::uint64_t epoch, JobEnd how) override { return cell_.end(epoch, how); }
  std::string why() const override { return "it has not answered"; }

 private:
  MemoryRegister cell_;
};

/// Two members of six batches, each of which has one in hand when the second is lost.
class MasterBesideForgetfulRegister : public testing::Test {
 protected:
  void SetUp() override {
    side_.begin();
    for (const MemberNumber number : {0, 1}) {
      ProcessWords hello = ProcessWords::of(Says::hello, number);
      hello.hello = {.number = number, .host = "h"};
      side_.hear(number, hello);
    }
    tick();
    for (const MemberNumber number : {0, 1}) {
      say(number, Says::begun);
      ASSERT_EQ(take(number, 0), number);
    }
  }
  void tick() { side_.tick(now_ = now_ + 2s); }
  void say(MemberNumber number, Says kind) {
    ProcessWords words = ProcessWords::of(kind, number);
    words.epoch = side_.known()->view.epoch;
    words.report = {.number = number, .epoch = words.epoch, .holding = {.held = 0}};
    side_.hear(number, words);
  }
  std::optional<std::uint64_t> take(MemberNumber number, std::uint64_t taken) {
    batch_.reset();
    ProcessWords words = ProcessWords::of(Says::take, number);
    words.taken = taken;
    words.batches = 6;
    side_.hear(number, words);
    return batch_;
  }
  /// The second member is lost, and the write without it goes so.
  void lose_second(ForgetfulRegister::Fate fate) {
    side_.lose(1);
    cell_.next = fate;
    say(0, Says::report);
    ASSERT_EQ(side_.known()->view.epoch, 1u);
    for (int i = 0; i < 4 && side_.known()->view.epoch < 2; ++i) {
      tick();
      say(0, Says::report);
    }
    ASSERT_EQ(side_.known()->view.members.size(), 1u);
    say(0, Says::begun);
  }

  ForgetfulRegister cell_;
  TimePoint now_;
  std::optional<std::uint64_t> batch_;
  MasterSide side_{cell_,
                   {.least = 1, .most = 2, .gather = 1s},
                   now_,
                   {.say = [this](MemberNumber, const MasterWords& words) { batch_ = words.batch; },
                    .tell = [](const std::string&) {},
                    .kill = [](MemberNumber) {}}};
};

TEST_F(MasterBesideForgetfulRegister, HandsOutWhatALostMemberHadThoughItsViewHadNoAnswer) {
  lose_second(ForgetfulRegister::Fate::made);
  EXPECT_EQ(take(0, 1), 1u);
  EXPECT_EQ(take(0, 2), 2u);
}

TEST_F(MasterBesideForgetfulRegister, DoesSoWhereItsViewWasWrittenOnceMore) {
  lose_second(ForgetfulRegister::Fate::not_made);
  EXPECT_EQ(take(0, 1), 1u);
  EXPECT_EQ(take(0, 2), 2u);
}

TEST_F(MasterBesideForgetfulRegister, GoesOnFromAnotherMastersView) {
  View theirs = side_.known()->view;
  ++theirs.epoch;
  theirs.members.pop_back();
  ASSERT_EQ(cell_.commit(theirs, {}), Written::done);
  Pool pool(6);
  std::string words = "pool 0 6 0";  // of the first term
  for (int i = 0; i < 4; ++i) (void)pool.take(0);
  for (const std::uint64_t number : pool.numbers()) words += text(' ', number);
  cell_.lines = {words};
  side_.lose(1);
  say(0, Says::report);
  tick();
  EXPECT_EQ(side_.known()->view, theirs);
  EXPECT_EQ(take(0, 3), 3u);
  EXPECT_EQ(take(0, 4), 4u);
}

}  // namespace
}  // namespace stretto
