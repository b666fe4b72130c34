#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/observe/trace.h"
#include "stretto/observe/whole_file.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/run.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr const char* kOrderings[] = {"coordinator", "gs", "nbcs", "topo"};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 1;
#else
constexpr std::uint64_t kSeeds = 4;
#endif

/// `sync` with gradients in one order, in processes of their own and in virtual time.
class OrderedRunTest : public testing::Test {
 protected:
  OrderedRunTest() : folder_(fs::path(testing::TempDir()) / text("stretto_ordered_", ::getpid())) { ::alarm(100); }
  ~OrderedRunTest() override {
    ::alarm(0);
    fs::remove_all(folder_);
  }

  RunSummary run(const TrainOptions& options, const TrainingTask& task = *linear_task()) {
    const RunHooks hooks{.progress = [this](const RunProgress& progress) {
      if (!progress.notice.empty()) notices_ += progress.notice + '\n';
    }};
    return run_training(options, task, hooks).value();
  }
  /// The weights at the end.
  ReplicaChecksum weights(TrainOptions options, const TrainingTask& task = *linear_task()) {
    options.out = (folder_ / text("run", runs_++)).string();
    options.checkpoint_every = 1'000'000;
    last_ = run(options, task);
    return read_checkpoint(options.out).checksum;
  }
  static std::string refusal(const TrainOptions& options) {
    try {
      resolved(options, linear_task()->facts());
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  static TrainOptions ordered(TrainOptions options, const std::string& ordering) {
    options.algorithm_options.set("ordering", ordering);
    if (ordering.find("scp") != std::string::npos) options.algorithm_options.set("cores", "shared");
    return options;
  }
  static TrainOptions shuffled(TrainOptions options, std::uint64_t seed) {
    options.algorithm_options.set("shuffle-ready", std::to_string(seed));
    return options;
  }

  const fs::path folder_;
  int runs_ = 0;
  std::string notices_;
  RunSummary last_;
};

TEST_F(OrderedRunTest, EveryOrderHasTheBitsOfNone) {
  const auto task = linear_task({.varied = true});
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const TrainOptions options{
          .ranks = ranks, .steps = 6, .momentum = 0.5, .pace = 1ms, .seed = seed, .simulated = true};
      const ReplicaChecksum none = weights(options, *task);
      for (const char* ordering : kOrderings) {
        EXPECT_EQ(weights(shuffled(ordered(options, ordering), seed), *task), none)
            << ordering << " on " << ranks << " ranks, seed " << seed;
        const OrderingFigures::Rank& all = last_.ordering->all;
        EXPECT_EQ(all.deviations + all.void_buffers, 0u) << ordering << " deviates";
        ASSERT_TRUE(all.stall) << "one process, one clock";
        EXPECT_LE(*all.stall, all.negotiation + 1e-12) << ordering;
      }
    }
  }
}

/// A simulated run has no cores, so these are real ones.
TEST_F(OrderedRunTest, CoresOfTheirOwnHaveTheBitsOfNone) {
  const auto task = linear_task({.varied = true});
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const TrainOptions options{.ranks = ranks, .steps = 6, .momentum = 0.5, .seed = seed};
      TrainOptions with = shuffled(ordered(options, seed % 2 == 0 ? "nbcs+scp" : "scp"), seed);
      with.algorithm_options.set("cycle-time", "1ms");
      EXPECT_EQ(weights(with, *task), weights(options, *task)) << "scp on " << ranks << " ranks, seed " << seed;
    }
  }
}

TEST_F(OrderedRunTest, CyclesAreTimedAndCoresAreTold) {
  TrainOptions options{.ranks = 2, .steps = 20, .pace = 1ms, .simulated = true};
  EXPECT_NEAR(run(ordered(options, "coordinator")).ordering.value().all.cycle_p50, 0.005, 0.001);
  TrainOptions restless = ordered(options, "gs");
  restless.algorithm_options.set("cycle-time", "1us");  // less than an agreement takes: no cycle sleeps
  const OrderingFigures::Rank all = run(restless).ordering.value().all;
  EXPECT_GT(all.cycle_p50, 1e-6) << "they are timed all the same";
  EXPECT_LT(run(ordered(options, "topo")).ordering.value().all.cycle_p99, 0.1) << "no cycle lasts while a plan does";
  EXPECT_FALSE(run(ordered(options, "coordinator")).ordering.value().cores);
  options.simulated = false;
  options.pace = 0ms;
  const RunSummary own = run(ordered(options, "scp"));
  EXPECT_FALSE(own.ordering.value().cores.value().background.empty());
}

TEST_F(OrderedRunTest, RealRanksHaveTheSameBits) {
  const auto task = linear_task({.varied = true});
  const TrainOptions options{.ranks = 3, .steps = 8, .momentum = 0.5};
  const ReplicaChecksum none = weights(options, *task);
  for (const char* ordering : {"coordinator", "gs", "nbcs", "scp", "nbcs+scp", "topo"}) {
    TrainOptions with = ordered(options, ordering);
    with.algorithm_options.set("cycle-time", "1ms");
    with.algorithm_options.set("scheduler-threads", "2");
    EXPECT_EQ(weights(with, *task), none) << ordering;
    EXPECT_TRUE(last_.replicas_identical);
    EXPECT_EQ(last_.deposits.applied, 24u);
  }
}

TEST_F(OrderedRunTest, APlanSendsNothingButGradients) {
  const TrainOptions few{.ranks = 4, .steps = 2, .pace = 1ms, .simulated = true};
  TrainOptions many = few;
  many.steps = 40;
  const auto controls = [&](const TrainOptions& options, const char* ordering) {
    const RunSummary s = run(ordered(options, ordering));
    return s.ordering->all.control_messages * static_cast<double>(options.steps);
  };
  EXPECT_GT(controls(few, "topo"), 0) << "the first step is agreed on";
  EXPECT_EQ(controls(few, "topo"), controls(many, "topo"));
  EXPECT_GT(controls(many, "coordinator"), 10 * controls(few, "coordinator"));
}

TEST_F(OrderedRunTest, RanksWithFewerBatchesGoOnTakingPart) {
  // 64 samples, 4 a batch: 16 batches, of which rank 0 has 6 and the others 5.
  for (const char* ordering : kOrderings) {
    const TrainOptions options{.ranks = 3, .epochs = 1, .pace = 1ms, .simulated = true};
    const ReplicaChecksum none = weights(options);
    EXPECT_EQ(weights(ordered(options, ordering)), none) << ordering;
    EXPECT_EQ(last_.deposits.applied, 16u) << ordering;
    EXPECT_EQ(last_.rounds, 6u) << ordering;
  }
}

TEST_F(OrderedRunTest, WeighsBySamplesAndResumes) {
  TrainOptions options{
      .ranks = 2, .epochs = 3, .batch = 5, .pace = 1ms, .normalize = Normalize::samples, .simulated = true};
  EXPECT_EQ(weights(ordered(options, "topo")), weights(options));
}

TEST_F(OrderedRunTest, TellsOfAGradientThatIsNotFinite) {
  const auto poisoned = linear_task({.poisoned = 5});
  for (const char* ordering : {"coordinator", "topo"}) {
    try {
      run(ordered({.ranks = 2, .epochs = 1}, ordering), *poisoned);
      ADD_FAILURE() << ordering;
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("is not finite on rank")) << ordering;
    }
  }
}

TEST_F(OrderedRunTest, TheTraceHasATrackForEachTensorOfEachRank) {
  for (const char* ordering : {"coordinator", "topo"}) {
    TrainOptions options = ordered({.ranks = 2, .steps = 5}, ordering);
    options.algorithm_options.set("cycle-time", "1ms");
    options.out = (folder_ / ordering).string();
    options.timeline = true;
    EXPECT_EQ(run(options).lost_records, 0u);
    const auto trace = nlohmann::json::parse(read_whole_file(options.out + "/trace.json").or_throw());
    std::map<int, std::string> processes;
    std::map<std::pair<int, int>, std::string> tracks;
    std::map<std::tuple<int, int, int>, std::vector<nlohmann::json>> steps;  // of a process, a track, a step
    for (const auto& event : trace.at("traceEvents")) {
      const int process = event.at("pid");
      if (event.at("name") == "process_name") processes[process] = event.at("args").at("name");
      if (process == 1) continue;
      if (event.at("name") == "thread_name") tracks[{process, event.at("tid")}] = event.at("args").at("name");
      if (event.at("ph") == "X") steps[{process, event.at("tid"), event.at("args").at("step")}].push_back(event);
    }
    EXPECT_EQ(processes, (std::map<int, std::string>{{1, "stretto"}, {2, "rank 0 tensors"}, {3, "rank 1 tensors"}}));
    std::multiset<std::string> names;
    for (const auto& [track, name] : tracks) names.insert(name);
    EXPECT_EQ(names, (std::multiset<std::string>{"b", "b", "w", "w"})) << "both ranks have both";
    EXPECT_EQ(steps.size(), 2u * 2 * 5) << ordering;
    for (const auto& [where, events] : steps) {
      ASSERT_EQ(events.size(), 4u) << ordering;
      double at = events[0].at("ts");
      for (std::size_t i = 0; i < 4; ++i) {
        constexpr const char* kParts[] = {"QUEUE", "NEGOTIATE", "FUSE", "TRANSFER"};
        EXPECT_EQ(events[i].at("name"), kParts[i]);
        EXPECT_NEAR(events[i].at("ts").get<double>(), at, 1e-3) << "a part begins where the one before ends";
        EXPECT_EQ(events[i].at("args").at("buffer"), events[0].at("args").at("buffer"));
        EXPECT_EQ(events[i].at("args").at("set"), 0);
        at = events[i].at("ts").get<double>() + events[i].at("dur").get<double>();
      }
    }
    std::uint64_t rounds = 0;
    const auto count = [&](const HandedRound&) { ++rounds; };
    EXPECT_EQ(read_traced_rounds(options.out + "/trace.json", count).or_throw(), LinesFound::all);
    EXPECT_EQ(rounds, 2u * 5) << "they are read as without tensors";
  }
}

TEST_F(OrderedRunTest, NoTensorIsTracedUnlessItIsAskedFor) {
  TrainOptions options = ordered({.ranks = 1, .steps = 2, .pace = 1ms, .simulated = true}, "topo");
  options.out = (folder_ / "run").string();
  run(options);
  EXPECT_THAT(read_whole_file(options.out + "/trace.json").or_throw(), testing::Not(HasSubstr("QUEUE")));
  const OrderingFigures::Rank all = run(options).ordering.value().all;
  EXPECT_FALSE(all.slice_seconds || all.throttled_periods || all.throttled_seconds) << "virtual time has no kernel";
}

TEST_F(OrderedRunTest, RefusesWhatCannotBeMeant) {
  const auto with = [](std::vector<std::pair<std::string, std::string>> options) {
    TrainOptions out;
    for (const auto& [name, value] : options) out.algorithm_options.set(name, value);
    return refusal(out);
  };
  EXPECT_THAT(with({{"ordering", "alphabetic"}}), HasSubstr("alphabetic"));
  EXPECT_THAT(with({{"ordering", "gs+topo"}}), HasSubstr("topo"));
  EXPECT_THAT(with({{"cycle-time", "5ms"}}), HasSubstr("ordering none: expected one that orders"));
  EXPECT_THAT(with({{"ordering", "topo"}, {"cycle-time", "0"}}), HasSubstr("cycle"));
  EXPECT_THAT(with({{"ordering", "topo"}, {"fusion-bytes", "3"}}), HasSubstr("fusion"));
  EXPECT_THAT(with({{"ordering", "topo"}, {"fusion-bytes", "much"}}), HasSubstr("expected a size"));
  EXPECT_THAT(with({{"ordering", "topo"}, {"gs-every", "2"}}), HasSubstr("expected gs"));
  EXPECT_THAT(with({{"ordering", "topo"}, {"cores", "shared"}}), HasSubstr("expected scp"));
  EXPECT_THAT(refusal(ordered({.pace = 1ms, .simulated = true}, "scp")), HasSubstr("a simulated one has no threads"));
  EXPECT_THAT(with({{"ordering", "scp"}, {"cores", "app=0,bg=4096"}}), HasSubstr("4096 is none of them"));
  EXPECT_THAT(refusal(ordered({.timeline = true}, "topo")), HasSubstr("a run folder to write it to"));
  EXPECT_THAT(refusal({.out = "run", .timeline = true}), HasSubstr("timeline with ordering none"));
  EXPECT_THAT(refusal({.algorithm = "eager-solo", .out = "run", .timeline = true}), HasSubstr("such as --ordering"));
}

}  // namespace
}  // namespace stretto
