#include "stretto/collective/allreduce/allreduce_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Way = AllreduceChoice::Way;

// Cases run at the same time, in processes of their own.
class AllreduceCostsTest : public testing::Test {
 protected:
  ~AllreduceCostsTest() override { std::filesystem::remove(name_); }

  std::string file_with(const std::string& content) const {
    std::ofstream(name_) << content;
    return name_;
  }
  std::string complaint_about(const std::string& content) const {
    try {
      (void)AllreduceCosts::read(file_with(content));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  }

 private:
  const std::string name_ = text(testing::TempDir(), "stretto_costs_", ::getpid());
};

TEST_F(AllreduceCostsTest, AreReadAsWritten) {
  const AllreduceCosts costs{.hand_off = 0.25,
                             .turn = 3,
                             .start = 0.5,
                             .sum_rate = 1000,
                             .move_rate = 2000,
                             .cache = 1 << 20,
                             .memory_rate = 4000};
  const AllreduceCosts read = AllreduceCosts::read(file_with("# of some machine\n\n" + costs.to_text()));
  EXPECT_EQ(read.to_text(), costs.to_text());
  EXPECT_NEAR(read.cache, costs.cache, 10);
  EXPECT_EQ(AllreduceCosts::read(file_with("turn = 3\n")).hand_off, AllreduceCosts{}.hand_off) << "the rest stays";
}

TEST_F(AllreduceCostsTest, SayWhatIsWrongWithAFile) {
  EXPECT_THAT(complaint_about("# x\nturn 3\n"), AllOf(HasSubstr("line 2"), HasSubstr("NAME = NUMBER")));
  EXPECT_THAT(complaint_about("turn = soon\n"), HasSubstr("NAME = NUMBER"));
  EXPECT_THAT(complaint_about("turn = 3 4\n"), HasSubstr("NAME = NUMBER"));
  for (const char* number : {"0", "-1", "1e-308", "1e308"}) {
    EXPECT_THAT(complaint_about(text("turn = ", number, "\n")), HasSubstr("expected a number from 1e-09 to 1e+15"));
  }
  EXPECT_THAT(complaint_about("turn = nan\n"), HasSubstr("expected"));
  EXPECT_THAT(complaint_about("turn = 1\n# again\nturn = 2\n"), AllOf(HasSubstr("line 3"), HasSubstr("a second turn")));
  EXPECT_THAT(complaint_about("turns = 1\n"), HasSubstr("expected one of hand_off, turn"));
  EXPECT_EQ(complaint_about("turn = 1\n"), "none");
  EXPECT_THROW((void)AllreduceCosts::read("/nonexistent"), UsageError);
  EXPECT_THROW((void)AllreduceCosts::read(testing::TempDir()), UsageError) << "a folder";
}

TEST_F(AllreduceCostsTest, OfTheEnvironmentAreReadAnewEachTime) {
  ::setenv("STRETTO_TUNING", file_with("turn = 3\n").c_str(), 1);
  EXPECT_EQ(AllreduceCosts::from_environment().turn, 3);
  file_with("turn = 4\n");
  EXPECT_EQ(AllreduceCosts::from_environment().turn, 4);
  ::unsetenv("STRETTO_TUNING");
  EXPECT_EQ(AllreduceCosts::from_environment().turn, AllreduceCosts{}.turn);
}

TEST(ChooseAllreduce, TakesTheFasterWay) {
  for (const std::uint64_t bytes : {8u, 4096u, 1u << 20, 64u << 20}) {
    for (const bool registered : {false, true}) {
      const AllreduceTask task{bytes, 2, 2, registered};
      const AllreduceChoice choice = choose_allreduce(task, {});
      const Way other = choice.way == Way::exchange ? Way::gather : Way::exchange;
      EXPECT_LE(predicted_us(choice.way, task, {}), predicted_us(other, task, {}));
      EXPECT_EQ(choice.piece_bytes, piece_bytes(choice.way, task));
    }
  }
}

TEST(ChooseAllreduce, FollowsTheCosts) {
  const AllreduceTask task{64 << 20, 2, 2, false};
  EXPECT_EQ(choose_allreduce(task, {.hand_off = 1000}).way, Way::gather) << "each chunk waits for a hand-off";
  EXPECT_EQ(choose_allreduce(task, {.hand_off = 1e-3, .cache = 1}).way, Way::exchange) << "less memory is touched";
}

TEST(ChooseAllreduce, ExchangesOnlyWhereAllRunAtOnce) {
  for (const std::uint64_t bytes : {8u, 64u << 20}) {
    const AllreduceChoice choice = choose_allreduce({bytes, 3, 2, false}, {});
    EXPECT_EQ(choice.way, Way::gather);
    EXPECT_THAT(choice.why, HasSubstr("exchange needs a core a rank"));
  }
}

const AllreduceCosts kGuesses;

TEST(AllreduceChoice, ExchangesWhatIsSmallWhereEachRankHasACore) {
  for (const int ranks : {2, 3, 4, 8, 16}) {
    const auto choice = choose_allreduce({.bytes = 8, .ranks = ranks, .cores = ranks}, kGuesses);
    EXPECT_EQ(choice.way, Way::exchange) << ranks << " ranks: " << choice.why;
    EXPECT_THAT(choice.why, testing::AllOf(HasSubstr("gather would take "), HasSubstr("exchange ")));
  }
}

TEST(AllreduceChoice, GathersWhatIsLargeAndLiesOnTheBoard) {
  for (const int ranks : {2, 4, 8, 16, 64}) {
    const AllreduceTask task{.bytes = 64 << 20, .ranks = ranks, .cores = ranks, .registered = true};
    EXPECT_EQ(choose_allreduce(task, kGuesses).way, Way::gather) << ranks << " ranks";
  }
}

TEST(AllreduceChoice, GathersWhereRanksShareCores) {
  for (const std::uint64_t bytes : {0u, 8u, 4096u, 1u << 20, 256u << 20}) {
    for (const bool registered : {false, true}) {
      const auto choice =
          choose_allreduce({.bytes = bytes, .ranks = 5, .cores = 4, .registered = registered}, kGuesses);
      EXPECT_EQ(choice.way, Way::gather) << bytes << " bytes";
      EXPECT_THAT(choice.why, HasSubstr("exchange needs a core a rank"));
    }
  }
}

/// With more bytes there is one point, at most, from which on gathering is faster.
TEST(AllreduceChoice, ChangesItsMindOnceAsInputsOnTheBoardGrow) {
  for (const int ranks : {2, 3, 4, 8, 32}) {
    int changes = 0;
    Way last = Way::exchange;
    for (std::uint64_t bytes = 8; bytes <= (1u << 30); bytes *= 2) {
      const auto choice =
          choose_allreduce({.bytes = bytes, .ranks = ranks, .cores = ranks, .registered = true}, kGuesses);
      changes += choice.way != last ? 1 : 0;
      last = choice.way;
    }
    EXPECT_EQ(changes, 1) << ranks << " ranks";
    EXPECT_EQ(last, Way::gather);
  }
}

TEST(AllreduceChoice, PredictsMoreForMore) {
  for (const Way way : {Way::exchange, Way::gather}) {
    for (const int ranks : {2, 4, 9}) {
      double before = 0;
      for (std::uint64_t bytes = 1 << 20; bytes <= (1u << 30); bytes *= 2) {
        const AllreduceTask task{.bytes = bytes, .ranks = ranks, .cores = 4};
        const double time = predicted_us(way, task, kGuesses);
        EXPECT_GT(time, before) << name_of(way) << ", " << bytes << " bytes";
        before = time;
        AllreduceCosts slower = kGuesses;
        slower.sum_rate /= 2;
        EXPECT_GT(predicted_us(way, task, slower), time);
      }
    }
  }
  const AllreduceTask copies{.bytes = 1 << 20, .ranks = 4, .cores = 4};
  AllreduceTask none = copies;
  none.registered = true;
  EXPECT_LT(predicted_us(Way::gather, none, kGuesses), predicted_us(Way::gather, copies, kGuesses));
}

TEST(AllreduceChoice, GivesPiecesThatABoardTakes) {
  for (const Way way : {Way::exchange, Way::gather}) {
    for (std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{100'003}, std::uint64_t{1} << 33}) {
      for (const int ranks : {1, 2, 33}) {
        const std::uint64_t piece = piece_bytes(way, {.bytes = bytes, .ranks = ranks, .cores = 4});
        EXPECT_EQ(piece % 4096, 0u);
        EXPECT_GE(piece, 4u << 10);
        EXPECT_LE(piece, 1u << 20);
      }
    }
  }
}

}  // namespace
}  // namespace stretto
