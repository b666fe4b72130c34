#include "stretto/predict/fine/step_trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "stretto/predict/fine/step_simulation.h"

namespace stretto {
namespace {

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
