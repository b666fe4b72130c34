#include "stretto/predict/fine/step_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "stretto/base/error.h"
#include "stretto/predict/fine/step_simulation.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using Kind = ExportNode::Kind;

/// Two layers, and three profiled steps of them, so that draws show.
TrainingJob job_of(Coordination mode, int workers) {
  TrainingJob job;
  job.bandwidth = 1e6;
  job.mode = mode;
  job.steps = 6;
  WorkerClass some{.count = workers, .batch = 1};
  for (const double pace : {1.0, 2.0, 5.0}) {
    some.steps.push_back(
        {{.name = "in", .bytes = 3000, .forward = pace * 1e-3, .backward = pace * 2e-3, .update = pace * 1e-4},
         {.name = "out", .bytes = 600, .forward = pace * 3e-3, .backward = pace * 4e-3, .update = 2e-4, .after = {0}}});
  }
  job.classes = {some};
  return job;
}

std::map<std::string, ExportNode> by_name(const std::vector<ExportNode>& nodes) {
  std::map<std::string, ExportNode> out;
  for (const ExportNode& node : nodes) out[node.name] = node;
  return out;
}

TEST(StepExport, ComputesForAsLongAsTheSimulation) {
  for (const Coordination mode : {Coordination::asynchronous, Coordination::synchronous, Coordination::allreduce}) {
    const TrainingJob job = job_of(mode, 3);
    const StepExport steps(job, {.steps = 6, .seed = 7});
    std::map<std::string, ExportNode> nodes;
    for (int rank = 0; rank < steps.ranks(); ++rank) nodes.merge(by_name(steps.rank(rank)));
    int compared = 0;
    simulate_steps(job,
                   {.seed = 7, .on_operation = [&](const SimulatedOperation& ran) {
                      if (ran.kind != OperationKind::forward && ran.kind != OperationKind::backward) return;
                      const std::string layer = job.classes[0].steps[0][static_cast<std::size_t>(ran.layer)].name;
                      const auto& node =
                          nodes.at(text("step ", ran.step, ", worker ", ran.host, ": ", layer, ' ', name_of(ran.kind)));
                      EXPECT_NEAR(1e9 * (ran.end - ran.begin), static_cast<double>(node.nanoseconds), 0.6) << node.name;
                      ++compared;
                    }});
    EXPECT_GE(compared, 50) << "the job ends when the first worker has";
  }
}

TEST(StepExport, WhatAWorkerWaitsFor) {
  const TrainingJob job = job_of(Coordination::synchronous, 2);
  const StepExport steps(job, {.steps = 2});
  EXPECT_EQ(steps.ranks(), 3);
  const auto worker = by_name(steps.rank(1)), server = by_name(steps.rank(2));
  const auto at = [](const auto& nodes, const std::string& name) { return nodes.at("step 1, worker 1: " + name); };
  const ExportNode got = at(worker, "in download"), sent = at(worker, "out upload");
  EXPECT_EQ(got.kind, Kind::recv);
  EXPECT_EQ(got.peer, 2);
  EXPECT_EQ(got.bytes, 3000U);
  EXPECT_EQ(got.after, std::vector<std::uint32_t>{worker.at("step 0 of worker 1 is over").id});
  EXPECT_EQ(at(worker, "in forward").after, std::vector<std::uint32_t>{got.id});
  EXPECT_EQ(at(worker, "out forward").after,
            (std::vector<std::uint32_t>{at(worker, "out download").id, at(worker, "in forward").id}));
  EXPECT_EQ(sent.kind, Kind::send);
  EXPECT_EQ(sent.after, std::vector<std::uint32_t>{at(worker, "out backward").id});

  const ExportNode given = at(server, "in download"), taken = at(server, "out upload");
  EXPECT_EQ(given.kind, Kind::send);
  EXPECT_EQ(given.tag, got.tag);
  EXPECT_EQ(given.after, std::vector<std::uint32_t>{server.at("step 0 is applied").id}) << "both workers' gradients";
  EXPECT_EQ(taken.tag, sent.tag);
  EXPECT_EQ(at(server, "out update").after, std::vector<std::uint32_t>{taken.id});
}

TEST(StepExport, AnAsynchronousStepWaitsForItsOwnWorkerAlone) {
  const TrainingJob job = job_of(Coordination::asynchronous, 2);
  const auto server = by_name(StepExport(job, {.steps = 2}).rank(2));
  EXPECT_EQ(server.at("step 1, worker 1: in download").after,
            std::vector<std::uint32_t>{server.at("step 0 of worker 1 is applied").id});
}

TEST(StepExport, ServersHaveShards) {
  TrainingJob job = job_of(Coordination::asynchronous, 2);
  job.servers = 3;
  const StepExport steps(job, {.steps = 1});
  EXPECT_EQ(steps.ranks(), 5);
  for (int server = 2; server < 5; ++server) {
    const auto nodes = by_name(steps.rank(server));
    EXPECT_EQ(nodes.at("step 0, worker 0: in download").bytes, 1000U);
    EXPECT_EQ(nodes.at("step 0, worker 0: out upload").bytes, 200U);
  }
}

TEST(StepExport, ARingHandsPartsOn) {
  const TrainingJob job = job_of(Coordination::allreduce, 3);
  const auto one = by_name(StepExport(job, {.steps = 1}).rank(1));
  EXPECT_EQ(one.at("step 0, worker 1: in upload").kind, Kind::allreduce);
  EXPECT_EQ(one.at("step 0, worker 1: in upload").bytes, 3000U);

  const StepExport steps(job, {.steps = 1, .ring = true});
  EXPECT_EQ(steps.ranks(), 3);
  int sends = 0;
  std::uint64_t bytes = 0;
  for (const ExportNode& node : steps.rank(1)) {
    if (node.kind != Kind::send) continue;
    ++sends;
    bytes += node.bytes;
    EXPECT_EQ(node.peer, 2);
  }
  EXPECT_EQ(sends, 2 * 2 * (3 - 1));
  EXPECT_EQ(bytes, 2U * 2 * (3000 + 600) / 3);
}

TEST(StepExport, RefusesHostsWithSeveralGpus) {
  TrainingJob job = job_of(Coordination::synchronous, 4);
  job.gpus_per_host = 2;
  EXPECT_THROW(StepExport(job, {}), UsageError);
}

TEST(StepExport, RefusesMoreMessagesThanTags) {
  const TrainingJob job = job_of(Coordination::allreduce, 1000);
  try {
    const StepExport steps(job, {.steps = 1'000'000, .ring = true});
    FAIL() << "they have 4 · 10¹² messages";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("fewer steps"));
  }
}

TrainingJob two_workers() {
  TrainingJob job;
  job.bandwidth = 1e6;
  job.mode = Coordination::synchronous;
  job.steps = 20;
  job.classes = {
      {.count = 2,
       .batch = 1,
       .steps = {{{.name = "a \"quoted\" layer", .bytes = 1e3, .forward = 1e-3, .backward = 2e-3, .update = 1e-4}}}}};
  return job;
}

TEST(StepTrace, HasEachOperationOfTheFirstStepsOnATrackWithAName) {
  const std::string path = testing::TempDir() + "/step_trace.json";
  const TrainingJob job = two_workers();
  StepTrace trace(job, path, 3);
  predict_fine(job, {.on_operation = [&](const SimulatedOperation& operation) { trace.add(operation); }});
  ASSERT_TRUE(trace.complete().ok());

  std::ifstream file(path);
  const auto written = nlohmann::json::parse(file);
  std::map<std::string, int> count;
  std::map<std::pair<int, int>, std::string> tracks;
  double end = 0;
  for (const auto& event : written.at("traceEvents")) {
    if (event.at("name") == "thread_name") tracks[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
    if (event.at("ph") != "X") continue;
    ++count[tracks.at({event.at("pid"), event.at("tid")}) + ": " + event.at("name").get<std::string>()];
    EXPECT_LT(event.at("args").at("step"), 3);
    end = std::max(end, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_EQ(count, (std::map<std::string, int>{{"downlink: a \"quoted\" layer download", 6},
                                               {"worker: a \"quoted\" layer forward", 6},
                                               {"worker: a \"quoted\" layer backward", 6},
                                               {"uplink: a \"quoted\" layer upload", 6},
                                               {"update: a \"quoted\" layer update", 6}}));
  EXPECT_NEAR(end, 3 * (2 * 2e3 + 3e3 + 100), 0.01);  // us: three steps of equation 7
  std::filesystem::remove(path);
}

TEST(StepTrace, TellsOfAFileThatCannotBeWritten) {
  const TrainingJob job = two_workers();
  StepTrace trace(job, "/nonexistent/trace.json", 3);
  predict_fine(job, {.on_operation = [&](const SimulatedOperation& operation) { trace.add(operation); }});
  const auto complete = trace.complete();
  ASSERT_FALSE(complete.ok());
  EXPECT_EQ(complete.error().code, Errc::io);
}

}  // namespace

}  // namespace stretto
