#include "stretto/observe/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "stretto/observe/temporary_folder.h"

namespace stretto {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class TraceTest : public ::testing::Test {
 protected:
  TraceTest() { fs::create_directories(root_); }
  ~TraceTest() override { fs::remove_all(root_); }
  std::string part(int rank) const { return root_ + "/trace-" + std::to_string(rank) + ".jsonl"; }
  Json merged(int ranks) {
    std::vector<std::string> parts;
    for (int rank = 0; rank < ranks; ++rank) parts.push_back(part(rank));
    events_ = merge_traces(parts, root_ + "/trace.json").or_throw();
    return Json::parse(std::ifstream(root_ + "/trace.json"));
  }
  const std::string root_ = ::testing::TempDir() + "stretto_events_" + std::to_string(getpid());
  std::uint64_t events_ = 0;
};

/// Events of the kind that have a duration, on one track.
std::vector<Json> slices(const Json& trace, int track) {
  std::vector<Json> out;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["tid"] == track) out.push_back(event);
  }
  return out;
}

TEST_F(TraceTest, HasATrackOfStepsAndOneOfRoundsForEachRank) {
  const TimePoint start{100s};
  for (int rank = 0; rank < 2; ++rank) {
    TraceWriter trace(part(rank), rank, start);
    trace.slice(TraceWriter::Kind::compute, start + 1ms, 1500ns, 7);
    trace.slice(TraceWriter::Kind::paced, start + 2ms, 3ms, 7);
    trace.slice(TraceWriter::Kind::delay, start + 5ms, 200ms, 7);
    trace.slice(TraceWriter::Kind::wait, start + 205ms, 0ms, 7);
    trace.round(
        {.round = 4, .fate = TraceWriter::Fate::stale, .arrived = 1, .contributors = 2, .batches = 3, .staleness = 2},
        start + 205ms);
    trace.round({.round = 5}, start + 210ms);
    EXPECT_TRUE(trace.complete());
  }
  const Json trace = merged(2);
  EXPECT_EQ(events_, 2u * (4 + 3 + 2));
  std::map<int, std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  }
  EXPECT_EQ(names, (std::map<int, std::string>{
                       {0, "rank 0 steps"}, {1, "rank 0 rounds"}, {2, "rank 1 steps"}, {3, "rank 1 rounds"}}));

  const auto steps = slices(trace, 2);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0]["name"], "compute");
  EXPECT_EQ(steps[0]["ts"], 1000.0);
  EXPECT_EQ(steps[0]["dur"], 1.5);
  EXPECT_EQ(steps[0]["args"]["step"], 7);
  EXPECT_EQ(steps[1]["name"], "paced");
  EXPECT_EQ(steps[2]["name"], "injected delay");
  EXPECT_EQ(steps[2]["dur"], 200000.0);

  const auto rounds = slices(trace, 3);
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[0]["name"], "stale");
  EXPECT_EQ(rounds[0]["ts"], 0.0);
  EXPECT_EQ(rounds[0]["dur"], 205000.0);
  EXPECT_EQ(rounds[0]["args"], Json::parse(R"({"round":4,"arrived":1,"contributors":2,"batches":3,"staleness":2})"));
  EXPECT_EQ(rounds[1]["name"], "null");
  EXPECT_EQ(rounds[1]["ts"], 205000.0);
  EXPECT_EQ(rounds[1]["dur"], 5000.0);
}

TEST_F(TraceTest, HasAProcessOfTensorsForEachRankAndATrackForEachTensor) {
  const TimePoint start{100s};
  for (int rank = 0; rank < 2; ++rank) {
    TraceWriter trace(part(rank), rank, start);
    TensorTimes times{.name = "fc.weight", .set = 1, .step = 3, .buffer = 8, .is_void = true};
    times.submitted = start + 1ms;
    times.taken = start + 1500us;
    times.begun = start + 4ms;
    times.fused = start + 4ms + 500ns;
    times.done = start + 6ms;
    trace.tensor(times);
    trace.tensor(
        {.name = "a \"b\"\n", .submitted = start, .taken = start, .begun = start, .fused = start, .done = start});
    times.buffer = 9;
    times.is_void = false;
    times.comes_again = true;
    times.submitted = times.taken = start + 6ms;
    times.begun = start + 7ms;
    times.fused = start + 8ms;
    times.done = start + 10ms;
    trace.tensor(times);
    EXPECT_TRUE(trace.complete());
  }
  const Json trace = merged(2);
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> tracks;
  std::vector<Json> events;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name" && event["pid"] != 1)
      tracks[{event["pid"], event["tid"]}] = event["args"]["name"];
    if (event["ph"] == "X" && event["pid"] == 3) events.push_back(event);
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{1, "stretto"}, {2, "rank 0 tensors"}, {3, "rank 1 tensors"}}));
  EXPECT_EQ(tracks, (std::map<std::pair<int, int>, std::string>{
                        {{2, 0}, "fc.weight"}, {{2, 1}, "a \"b\"\n"}, {{3, 0}, "fc.weight"}, {{3, 1}, "a \"b\"\n"}}));
  std::vector<std::string> said;
  for (const Json& event : events) {
    said.push_back(text(event["tid"].get<int>(), ' ', event["name"].get<std::string>(), ' ', event["ts"].get<double>(),
                        ' ', event["dur"].get<double>()));
  }
  EXPECT_THAT(said, ::testing::ElementsAre("0 QUEUE 1000 500", "0 NEGOTIATE 1500 2500", "0 FUSE 4000 0.5",
                                           "0 TRANSFER (void) 4000.5 1999.5", "1 QUEUE 0 0", "1 NEGOTIATE 0 0",
                                           "1 FUSE 0 0", "1 TRANSFER 0 0", "0 NEGOTIATE 6000 1000", "0 FUSE 7000 1000",
                                           "0 TRANSFER 8000 2000"));
  EXPECT_EQ(events[0]["args"], Json::parse(R"({"step":3,"buffer":8,"set":1})"));
  EXPECT_EQ(events[8]["args"], Json::parse(R"({"step":3,"buffer":9,"set":1})"));
}

TEST_F(TraceTest, PartsGoWhenTheTraceIsThere) {
  { TraceWriter(part(0), 0, {}); }
  (void)merged(1);
  EXPECT_FALSE(fs::exists(part(0)));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
}

TEST_F(TraceTest, WhatAKilledRankLeftIsMergedAsFarAsItGoes) {
  { TraceWriter(part(0), 0, {}).slice(TraceWriter::Kind::compute, {}, 1ms, 0); }
  std::ofstream(part(1)) << R"({"ph":"X","name":"compute","pid":1,"tid":2,"ts":1.0,"dur":1.0})"
                         << "\n"
                         << R"({"ph":"X","na)";
  const Json trace = merged(3);
  EXPECT_EQ(events_, 5u + 1u);
  EXPECT_EQ(slices(trace, 2).size(), 1u);
}

TEST_F(TraceTest, AFullDiskCostsEventsOnly) {
  TraceWriter trace("/dev/full", 0, {});
  for (std::uint64_t step = 0; step < 10000; ++step) trace.slice(TraceWriter::Kind::compute, {}, 1ms, step);
  trace.flush();
  EXPECT_EQ(trace.lost(), 10004u);
  EXPECT_THAT(trace.complete().error().message, HasSubstr("10004 records of '/dev/full' were lost: No space left"));
}

TEST_F(TraceTest, ATraceThatCannotBeWrittenKeepsItsParts) {
  { TraceWriter(part(0), 0, {}); }
  const std::vector<std::string> parts = {part(0)};
  const auto written = merge_traces(parts, "/nowhere/at/all/trace.json");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("cannot write '/nowhere/at/all/trace.json': No such file"));
  EXPECT_TRUE(fs::exists(part(0)));
}

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
