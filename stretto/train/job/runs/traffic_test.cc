// What each algorithm sends, against the formulas of docs/algorithms.md: counted in two runs of which one is longer, so
// that what they differ by are steps alone, without the first and the last messages of a run.

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "stretto/observe/run_folder.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/train/job/run.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSteps = 24;  // of each rank; divisible by every interval below

// What is sent to a neighbour: 64 bytes of the message's own, and each bucket, as long as whole cache lines.
constexpr double kModelMessage = 64 + 64 + 64;

struct Formula {
  std::string algorithm;
  int ranks;
  double messages;  // of all ranks in a step of each
  double bodies;    // their bytes; the model has two buckets, of 4 and of 20 bytes
  AlgorithmOptions options = {};
  std::uint64_t sync_every = 0;
  bool live = true;  // what is sent does not depend on who comes first
};
void PrintTo(const Formula& c, std::ostream* out) {
  *out << c.algorithm << " on " << c.ranks << ' ' << c.options.to_string();
}

TrainOptions options_of(const Formula& c, std::uint64_t steps) {
  return {.algorithm = c.algorithm,
          .ranks = c.ranks,
          .steps = steps,
          .data = "partitioned",
          .seats = 1,
          .sync_every = c.sync_every,
          .algorithm_options = c.options};
}

class TrafficOf : public testing::TestWithParam<Formula> {
 protected:
  TrafficOf() { ::alarm(100); }
  ~TrafficOf() override { ::alarm(0); }

  static Traffic sent(TrainOptions options, bool simulated) {
    options.simulated = simulated;
    if (simulated) options.pace = 1ms;
    const RunHooks quiet{.progress = [](const RunProgress&) {}};
    const RunSummary s = run_training(options, *linear_task({.samples = 4096}), quiet).value();
    EXPECT_EQ(s.messages_per_step * static_cast<double>(s.deposits.made), static_cast<double>(s.sent.messages));
    return s.sent;
  }
  static void check(bool simulated) {
    const Formula& c = GetParam();
    const Traffic steps = sent(options_of(c, 2 * kSteps), simulated).since(sent(options_of(c, kSteps), simulated));
    EXPECT_EQ(static_cast<double>(steps.messages), c.messages * kSteps);
    EXPECT_EQ(static_cast<double>(steps.body_bytes), c.bodies * kSteps);
    EXPECT_GE(steps.bytes, steps.body_bytes + steps.messages * sizeof(Envelope));
  }
};

TEST_P(TrafficOf, AStepIsThatOfTheDocumentsInVirtualTimeAndLive) {
  check(true);
  if (GetParam().live) check(false);
}

const Formula kFormulas[] = {
    // An allreduce of small buckets: log2 P messages a rank and bucket.
    {"sync", 1, 0, 0},
    {"sync", 2, 2 * 2 * 1, 2 * 24 * 1},
    {"sync", 4, 4 * 2 * 2, 4 * 24 * 2},
    {"sync", 8, 8 * 2 * 3, 8 * 24 * 3},
    {"sync", 3, 2 * (2 + 2), 24 * (2 + 2)},  // rank 0 is folded into rank 1 and unfolded
    {"local", 4, 4 * 2 * 2 / 4.0, 4 * 24 * 2 / 4.0, {}, 4},
    // A message without a body to each neighbour of the hypercube, then an allreduce of two of the four ranks; every
    // twelfth round is an allreduce of all. A model has a number more: how many steps' movement is in it.
    {"wagma:2",
     4,
     (11 * (4 * 2 + 4 * 2 * 1) + 4 * 2 * 2) / 12.0,
     (11 * 4 * 28 * 1 + 4 * 28 * 2) / 12.0,
     {{"tau", "12"}},
     0,
     false},
    // A message to each neighbour, with both buckets.
    {"d-psgd", 4, 4 * 2, 4 * 2 * kModelMessage},
    {"d-psgd", 4, 4 * 3, 4 * 3 * kModelMessage, {{"graph", "complete"}}},
    {"sgp", 4, 4 * 1, 4 * 1 * kModelMessage},
    {"sgp", 5, 5 * 2, 5 * 2 * kModelMessage, {{"neighbours", "2"}}},
    {"osgp", 4, 4 * 1, 4 * 1 * kModelMessage},
    {"gossip-grad", 4, 4 * 1, 4 * 1 * kModelMessage},
    // Both even ranks ask, with a message a bucket, and are answered.
    {"ad-psgd", 4, 2 * 2 * 2, 2 * 2 * 24},
    // The other ranks ask rank 0, in every fourth step.
    {"easgd-async", 4, 3 * 2 * 2 / 4.0, 3 * 2 * 24 / 4.0, {}, 4},
    {"easgd", 4, 4 * 2 * 2 / 4.0, 4 * 24 * 2 / 4.0, {}, 4},
    {"diloco", 4, 4 * 2 * 2 / 4.0, 4 * 24 * 2 / 4.0, {}, 4},
    // PUSH, GET without a body, and VALUE, for every rank and bucket but a server and its own.
    {"ps-sync", 4, 3 * 2 * 3, 2 * 24 * 3},
    {"ps-async", 4, 3 * 2 * 3, 2 * 24 * 3},
    {"ssp:2", 4, 3 * 2 * 3, 2 * 24 * 3},
    {"ps-sync", 4, 3 * 2 * 3, 2 * 24 * 3, {{"servers", "1"}}},
    {"k-sync:4", 4, 3 * 2 * 3 + 1, 2 * 24 * 3},  // and COMMIT to the server of the other bucket
};
INSTANTIATE_TEST_SUITE_P(All, TrafficOf, testing::ValuesIn(kFormulas));

class TrafficTest : public TrafficOf {};

TEST_F(TrafficTest, OfALargeModelIsThatOfItsOwnBytesWithoutGradients) {
  TrainOptions options{.ranks = 4, .no_gradients = true, .model_bytes = 100'000'000};
  const auto steps = [&options](std::uint64_t count) {
    options.steps = count;
    return sent(options, true);
  };
  const Traffic ten = steps(20).since(steps(10));
  // Halving and doubling: 2 log2 P messages a rank, and 2 (P - 1) / P of the bytes.
  EXPECT_EQ(ten.messages, 10u * 4 * 4);
  EXPECT_EQ(ten.body_bytes, 10ull * 4 * 2 * 75'000'000);
}

TEST_F(TrafficTest, OnABoardIsNone) {
  TrainOptions options{.algorithm = "eager-quorum", .ranks = 3, .steps = 20};
  EXPECT_EQ(sent(options, false), Traffic{});
  options.algorithm = "sync";
  EXPECT_EQ(sent(options, false), Traffic{});
}

TEST_F(TrafficTest, OfEachStepIsInItsRecord) {
  const TemporaryFolder folder;
  TrainOptions options = options_of({"d-psgd", 3, 0, 0}, 10);
  options.out = folder.path() + "/run";
  const Traffic all = sent(options, true);
  std::uint64_t messages = 0, bytes = 0;
  for (int rank = 0; rank < 3; ++rank) {
    std::ifstream records(RunFolder::open(options.out).or_throw().records_file(rank));
    int steps = 0;
    for (std::string line; std::getline(records, line); ++steps) {
      const auto record = nlohmann::json::parse(line);
      EXPECT_EQ(record.at("messages"), 2) << "to both neighbours, step " << steps << " of rank " << rank;
      messages += record.at("messages").get<std::uint64_t>();
      bytes += record.at("bytes").get<std::uint64_t>();
    }
    EXPECT_EQ(steps, 10);
  }
  EXPECT_LT(messages, all.messages) << "the average at the end is no step's";
  EXPECT_LT(bytes, all.bytes);
}

}  // namespace
}  // namespace stretto
