#include "stretto/collective/allreduce_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using Way = AllreduceChoice::Way;

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
        AllreduceTask fewer_cores = task;
        fewer_cores.cores = 1;
        EXPECT_GT(predicted_us(way, fewer_cores, kGuesses), time);
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
        EXPECT_GE(piece, 8u << 10);
        EXPECT_LE(piece, 1u << 20);
      }
    }
  }
}

/// A file that is gone with this object.
class CostsFile {
 public:
  explicit CostsFile(const std::string& content) : name_(testing::TempDir() + "costs_" + std::to_string(getpid())) {
    std::ofstream(name_) << content;
  }
  ~CostsFile() { std::remove(name_.c_str()); }
  CostsFile(const CostsFile&) = delete;
  CostsFile& operator=(const CostsFile&) = delete;
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
};

std::string error_of(const std::string& file) {
  try {
    (void)AllreduceCosts::read(file);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AllreduceCosts, ReadsWhatItWrites) {
  const AllreduceCosts costs{.hand_off = 0.25, .turn = 3.5, .start = 0.0625, .copy_rate = 12345, .sum_rate = 99999};
  const CostsFile file(costs.to_text());
  const auto same = AllreduceCosts::read(file.name());
  EXPECT_EQ(same.hand_off, 0.25);
  EXPECT_EQ(same.turn, 3.5);
  EXPECT_EQ(same.start, 0.0625);
  EXPECT_EQ(same.copy_rate, 12345);
  EXPECT_EQ(same.sum_rate, 99999);
  EXPECT_EQ(same.to_text(), costs.to_text());
}

TEST(AllreduceCosts, KeepsTheGuessOfWhatAFileLeavesOut) {
  const CostsFile file("# measured\n\nturn = 7\n");
  const auto costs = AllreduceCosts::read(file.name());
  EXPECT_EQ(costs.turn, 7);
  EXPECT_EQ(costs.hand_off, kGuesses.hand_off);
}

TEST(AllreduceCosts, SaysWhatIsWrongWithAFile) {
  const auto expect = [](const std::string& content, const char* what) {
    const CostsFile file(content);
    EXPECT_EQ(error_of(file.name()), file.name() + what) << content;
  };
  expect("turn = 1\nspeed = 3\n", ", line 2: expected one of hand_off, turn, start, copy_rate, sum_rate");
  expect("turn = fast\n", ", line 1: expected NAME = NUMBER");
  expect("turn 3\n", ", line 1: expected NAME = NUMBER");
  expect("turn\n", ", line 1: expected NAME = NUMBER");
  expect("# costs\nturn = -1\n", ", line 2: expected a number above 0");
  expect("turn = 0\n", ", line 1: expected a number above 0");
  EXPECT_THAT(error_of("/nonexistent/costs"),
              HasSubstr("/nonexistent/costs: cannot be read; `stretto bench tune --out /nonexistent/costs` makes it"));
}

}  // namespace
}  // namespace stretto
