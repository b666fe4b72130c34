#include "command/predict/step_times_argument.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "command/predict/simulated_choice.h"
#include "command/predict/trial.h"
#include "stretto/base/error.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string file_with(const std::string& content) {
  std::string path = ::testing::TempDir() + "/step_times_argument_" + std::to_string(::getpid());
  std::ofstream(path) << content;
  return path;
}

TEST(StepTimesArgument, NeedsAFileOrATime) {
  StepTimesArgument argument;
  EXPECT_THAT([&] { argument.read(); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("expected a FILE")));
  argument.compute = std::chrono::milliseconds(10);
  argument.imbalance = "random:ranks=1,delay=40ms";
  argument.noise = 0;
  const StepTimesSource drawn = argument.read();
  EXPECT_EQ(drawn.all().ranks(), 8);
  EXPECT_THAT(drawn.all().mean(), DoubleNear(0.015, 1e-6));
  EXPECT_EQ(drawn.hosts().model_bytes, 100'000'000u);
  EXPECT_NE(drawn.replica(1).to_csv(), drawn.all().to_csv());
  argument.file = "times.csv";
  EXPECT_THAT([&] { argument.read(); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("expected a FILE")));
}

TEST(StepTimesArgument, DrawsRanksFromAProfile) {
  const std::string file = file_with(R"({"bandwidth": 1e9, "workers": [{"batch": 4, "profile": [
    [{"name": "a", "bytes": 8, "forward": 0.25, "backward": 0.5, "update": 0.25}],
    [{"name": "a", "bytes": 8, "forward": 1, "backward": 0.5, "update": 0.5}]]}]})");
  StepTimesArgument argument;
  argument.file = file;
  argument.ranks = 3;
  argument.noise = 0;
  const StepTimesSource source = argument.read();
  EXPECT_EQ(source.all().ranks(), 3);
  EXPECT_EQ(source.all().steps(), 100u);
  EXPECT_EQ(source.hosts().model_bytes, 8u);
  std::set<float> times;
  for (std::size_t step = 0; step < 100; ++step)
    times.insert(source.all().step(step).begin(), source.all().step(step).end());
  EXPECT_EQ(times, (std::set<float>{1, 2}));
  argument.imbalance = "persistent:rank=1,delay=1s";
  EXPECT_THAT(argument.read().all().step(0)[1], ::testing::Ge(2));
}

TEST(StepTimesArgument, AFileThatSaysWhoIsSlowNeedsNoImbalance) {
  const std::string file = file_with("0,0,1\n0,1,2\n");
  StepTimesArgument argument;
  argument.file = file;
  EXPECT_EQ(argument.read().all().ranks(), 2);
  argument.imbalance = "cloud";
  EXPECT_THAT([&] { argument.read(); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("--imbalance cloud")));
}

std::string csv_of(int steps) {
  std::string csv;
  for (int step = 0; step < steps; ++step) csv += fmt::format("{},0,{}\n", step, step + 1);
  return csv;
}

TEST(StepTimesArgument, ReplicasOfFewStepsDiffer) {
  StepTimesArgument argument;
  argument.replicas = 8;
  for (const int steps : {2, 4, 10, 11}) {
    argument.file = file_with(csv_of(steps));
    std::set<double> means;
    for (const StepTimes& replica : argument.read().replicas()) means.insert(replica.mean());
    EXPECT_GE(means.size(), 4u) << steps;
  }
}

TEST(StepTimesArgument, ReplicasOfManyStepsAreBlocksOfTen) {
  StepTimesArgument argument;
  argument.file = file_with(csv_of(200));
  const StepTimes replica = argument.read().replica(0);
  for (std::size_t step = 0; step < replica.steps(); ++step) {
    if (step % 10 == 0) continue;
    EXPECT_EQ(replica.step(step)[0], replica.step(step - 1)[0] + 1) << step;
  }
}

TEST(StepTimesArgument, SaysWhereStepsAreTooFewForIntervals) {
  StepTimesArgument argument;
  argument.file = file_with(csv_of(29));
  EXPECT_THAT(argument.read().notes(), Contains(HasSubstr(": 29 steps are too few for intervals")));
  argument.file = file_with(csv_of(30));
  EXPECT_THAT(argument.read().notes(), Not(Contains(HasSubstr("too few"))));
}

TEST(StepTimesArgument, SaysWhatIsAssumedOfMessagesWhereTheFileDoesNot) {
  StepTimesArgument argument;
  argument.file = file_with(csv_of(30));
  EXPECT_THAT(argument.read().notes(),
              ElementsAre(HasSubstr("assumed: a model of 100 MB and latency=1us,bandwidth=10GB/s,overhead=100ns")));
  EXPECT_THAT(argument.read().notes(), ElementsAre(HasSubstr("; say --model-bytes and --network")));
  argument.model_bytes = 1000;
  EXPECT_THAT(argument.read().notes(), ElementsAre(Not(HasSubstr("--model-bytes"))));
  argument.network = "bandwidth=1GB/s";
  EXPECT_THAT(argument.read().notes(), IsEmpty());
}

TEST(StepTimesArgument, ANetworkLikeAnExchangeTakesAsLong) {
  for (const int ranks : {2, 8}) {
    for (const double seconds : {0.0005, 0.010, 2.0}) {
      const SimulatedHosts hosts{.network = network_of_exchange(seconds, ranks, 100'000'000),
                                 .model_bytes = 100'000'000};
      const double took = exchange_costs({"sync"}, *shape_of({"sync"}, ranks), ranks, hosts).full_round;
      EXPECT_NEAR(took / seconds, 1, 0.02) << ranks << " ranks: " << hosts.network;
    }
  }
  EXPECT_THAT(network_of_exchange(0, 4, 1000), HasSubstr("bandwidth=1000GB/s"));
}

TEST(StepTimesArgument, DrawsMoreRanksLikeThoseThatWereMeasured) {
  StepTimesArgument argument;
  argument.file = file_with("0,0,1\n0,1,2\n");
  argument.ranks = 6;
  const StepTimesSource source = argument.read();
  EXPECT_EQ(source.all().steps(), 100u);
  std::vector<float> times(source.all().step(7).begin(), source.all().step(7).end());
  std::ranges::sort(times);
  EXPECT_THAT(times, ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_EQ(source.replica(1).ranks(), 6);
}

TEST(StepTimesArgument, DrawsEachRankOfAJobFromItsClass) {
  StepTimesArgument argument;
  argument.file = file_with(R"({"bandwidth": 1e9, "model_bytes": 8, "update": 0, "workers": [
    {"count": 2, "batch": 4, "forward": 0.25, "backward": 0.75},
    {"count": 1, "batch": 4, "forward": 1, "backward": 1}]})");
  argument.noise = 0;
  EXPECT_THAT(argument.read().all().step(0), ElementsAre(1, 1, 2));
  argument.imbalance = "persistent:rank=1,factor=3";
  EXPECT_THAT(argument.read().all().step(0), ElementsAre(1, 3, 2));
  argument.ranks = 4;
  EXPECT_THAT([&] { argument.read(); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("2 classes of workers")));
}

TEST(StepTimesArgument, AJobSaysItsNetworkUnlessAnotherIsAskedFor) {
  const std::string job = R"("bandwidth": 2.5e9, "model_bytes": 8, "update": 0,
    "workers": [{"count": 2, "batch": 4, "forward": 0.25, "backward": 0.75}])";
  StepTimesArgument argument;
  argument.file = file_with("{" + job + "}");
  EXPECT_THAT(argument.read().hosts().network, HasSubstr("bandwidth=2.5GB/s"));
  EXPECT_THAT(argument.read().notes(), IsEmpty());
  argument.network = "bandwidth=1MB/s";
  EXPECT_EQ(argument.read().hosts().network, "bandwidth=1MB/s");
  argument.file = file_with(R"({"servers": 2, "overlap": false, "flow_cap": 1e9, "nics": 1, )" + job + "}");
  EXPECT_THAT(argument.read().notes(), ElementsAre(HasSubstr(": not used here: servers, overlap, flow_cap")));
}

/// What read() says is wrong, of a job's file with these keys.
std::string fault_of(const std::string& keys, const std::string& network = "") {
  StepTimesArgument argument;
  argument.file = file_with(keys);
  argument.network = network;
  try {
    (void)argument.read();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(StepTimesArgument, NamesTheFileOfWhatCannotBeSimulated) {
  const auto job = [](const std::string& bandwidth, const std::string& bytes, const std::string& forward) {
    return R"({"bandwidth": )" + bandwidth + R"(, "model_bytes": )" + bytes +
           R"(, "update": 0, "workers": [{"count": 2, "batch": 1, "backward": 0, "forward": )" + forward + "}]}";
  };
  const std::string file = "step_times_argument_" + std::to_string(::getpid()) + "': ";
  EXPECT_EQ(fault_of(job("1e9", "0.3", "1")), "");
  EXPECT_THAT(fault_of(job("1e9", "8", "1e7")), HasSubstr(file + "a step of a rank takes"));
  EXPECT_THAT(fault_of(job("1", "8", "1")), HasSubstr(file + "bandwidth: expected at least 10000 bytes per second"));
  EXPECT_EQ(fault_of(job("1", "8", "1"), "bandwidth=10kB/s"), "");
  EXPECT_THAT(fault_of(job("1e18", "1e17", "1")), HasSubstr(file + "a model of 1e+17 bytes"));
  EXPECT_THAT(fault_of(job("1e6", "1e14", "1")), HasSubstr(file + "100 steps of 2 ranks"));
}

TEST(StepTimesArgument, TakesAsManyRanksAsAJobMayHave) {
  std::string rows;
  for (int rank = 0; rank <= JobMemory::kMaxRanks; ++rank) rows += "0," + std::to_string(rank) + ",1\n";
  EXPECT_THAT(fault_of(rows), HasSubstr("has times of 1025 ranks; expected at most 1024, or --ranks"));
  EXPECT_EQ(fault_of(rows.substr(0, rows.rfind("0,1024"))), "");
}

TEST(StepTimesArgument, RefusesTheConfigurationOfNoRun) {
  const TemporaryFolder folder;
  const auto fault = [&](const std::string& config) -> std::string {
    folder.write("config.json", config);
    try {
      (void)hosts_of_run(folder.path());
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(fault(R"({"model_bytes": 5, "network": "bandwidth=1MB/s"})"), "");
  EXPECT_THAT(fault(R"({"model_bytes": -5})"), HasSubstr("config.json': model_bytes: expected bytes; found -5"));
  EXPECT_THAT(fault(R"({"model_bytes": "5"})"), HasSubstr("config.json': model_bytes: expected bytes; found \"5\""));
  EXPECT_THAT(fault(R"({"network": 5})"), HasSubstr("config.json': network: expected a text; found 5"));
  EXPECT_THAT(fault(R"({"network": "fast"})"), HasSubstr("config.json': network fast: "));
  EXPECT_THAT(fault("[]"), HasSubstr("config.json': expected the JSON object"));
}

}  // namespace
}  // namespace stretto::command
