#include "stretto/observe/traced_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "stretto/observe/temporary_folder.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using Fate = TraceWriter::Fate;

class TracedRounds : public ::testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const std::vector<std::string> parts_{temporary_.path() + "/trace-0.jsonl", temporary_.path() + "/trace-1.jsonl"};

  void write() const {
    const TimePoint start{100s};
    for (int rank = 0; rank < 2; ++rank) {
      TraceWriter trace(parts_[static_cast<std::size_t>(rank)], rank, start);
      trace.slice(TraceWriter::Kind::compute, start, 1500ns, 0);
      trace.tensor({.name = R"("args":{"round":3)", .submitted = start, .done = start + 1ms});  // of no round
      trace.round({.round = 4, .fate = Fate::stale, .arrived = 1, .contributors = 2, .batches = 3, .staleness = 2},
                  start + 205ms + rank * 1ns);
      trace.round({.round = 5, .fate = Fate::null}, start + 210ms);
    }
  }
  static std::vector<HandedRound> read(const std::string& path, LinesFound found = LinesFound::all) {
    std::vector<HandedRound> rounds;
    const auto take = [&](const HandedRound& round) { rounds.push_back(round); };
    EXPECT_EQ(read_traced_rounds(path, take).or_throw(), found);
    return rounds;
  }
};

TEST_F(TracedRounds, AreReadFromPartsAsFromAllOfThem) {
  write();
  std::vector<HandedRound> rounds = read(parts_[0]);
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[0].rank, 0);
  EXPECT_EQ(rounds[0].when, 205ms);
  EXPECT_EQ(rounds[0].round.round, 4u);
  EXPECT_EQ(rounds[0].round.fate, Fate::stale);
  EXPECT_EQ(rounds[0].round.arrived, 1);
  EXPECT_EQ(rounds[0].round.contributors, 2);
  EXPECT_EQ(rounds[0].round.batches, 3u);
  EXPECT_EQ(rounds[0].round.staleness, 2u);
  EXPECT_EQ(rounds[1].round.fate, Fate::null);
  const std::string all = temporary_.path() + "/trace.json";
  ASSERT_TRUE(merge_traces(parts_, all));
  rounds = read(all);
  ASSERT_EQ(rounds.size(), 4u);
  EXPECT_EQ(rounds[2].rank, 1);
  EXPECT_EQ(rounds[2].when, 205ms + 1ns);
}

TEST_F(TracedRounds, LinesThatAreNotWholeAreLeftOut) {
  write();
  std::ofstream(parts_[0], std::ios::app) << R"({"ph":"X","name":"fresh","args":{"round":)";
  EXPECT_EQ(read(parts_[0], LinesFound::cut).size(), 2u);
  const std::string all = temporary_.path() + "/trace.json";
  ASSERT_TRUE(merge_traces(parts_, all));
  EXPECT_EQ(read(all).size(), 4u);
  std::filesystem::resize_file(all, std::filesystem::file_size(all) - 3);  // without the bracket at its end
  EXPECT_EQ(read(all, LinesFound::cut).size(), 4u);
  std::ofstream(all) << "{}\n";
  EXPECT_EQ(read(all, LinesFound::cut).size(), 0u);
}

TEST_F(TracedRounds, ARoundThatLacksSomethingIsNamedWithItsLine) {
  std::ofstream(parts_[0]) << "{\n"
                           << R"({"ph":"X","name":"fresh","pid":1,"tid":1,"args":{"round":3}})"
                           << "\n";
  const auto broken = read_traced_rounds(parts_[0], [](const HandedRound&) {});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message, "'" + parts_[0] + "' line 2: no round of a rank");
  const auto nothing = read_traced_rounds(parts_[1], [](const HandedRound&) {});
  ASSERT_TRUE(nothing);
  EXPECT_EQ(*nothing, LinesFound::no_file);
}

}  // namespace
}  // namespace stretto
