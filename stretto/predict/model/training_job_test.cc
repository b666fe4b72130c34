#include "stretto/predict/model/training_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TrainingJob read(const std::string& json) {
  return read_job(json, "job.json").or_throw();
}

std::string refusal(const std::string& json) {
  const auto job = read_job(json, "job.json");
  if (job) return "read";
  EXPECT_EQ(job.error().code, Errc::bad_input);
  EXPECT_THAT(job.error().message, StartsWith("'job.json': "));
  EXPECT_EQ(job.error().message.find('\n'), std::string::npos) << job.error().message;
  return job.error().message;
}

constexpr const char* kCoarse = R"({"model_bytes": 1e8, "bandwidth": 1.25e9, "update": 0.002,
  "workers": [{"count": 3, "forward": 0.03, "backward": 0.06, "batch": 32},
              {"count": 2, "forward": 0.06, "backward": 0.12, "batch": 16}]})";

/// A job of one class with these layers, and further top-level fields: ", \"update\": 1".
std::string with_layers(const std::string& layers, const std::string& more = "") {
  return R"({"bandwidth": 100, "workers": [{"count": 1, "batch": 8, "layers": )" + layers + "}]" + more + "}";
}

/// A job of one class with these fields.
std::string with_class(const std::string& fields) {
  return R"({"model_bytes": 1, "bandwidth": 1, "update": 0, "workers": [{)" + fields + "}]}";
}

TEST(ReadJob, ReadsTheTotalsOfClasses) {
  const TrainingJob job = read(kCoarse);
  EXPECT_EQ(job.model_bytes, 1e8);
  EXPECT_EQ(job.bandwidth, 1.25e9);
  ASSERT_EQ(job.classes.size(), 2U);
  EXPECT_EQ(job.workers(), 5);
  EXPECT_EQ(job.classes[1].count, 2);
  EXPECT_EQ(job.classes[1].forward, 0.06);
  EXPECT_EQ(job.classes[1].backward, 0.12);
  EXPECT_EQ(job.classes[1].batch, 16);
  EXPECT_EQ(job.classes[1].update, 0.002);
  EXPECT_THAT(job.classes[1].steps, IsEmpty());
  EXPECT_THAT(job.notes, IsEmpty());
}

TEST(ReadJob, HasTheDefaultsOfItsSchema) {
  const TrainingJob job = read(kCoarse);
  EXPECT_EQ(job.rho_threshold, 0.5);
  EXPECT_EQ(job.servers, 1);
  EXPECT_EQ(job.link, std::nullopt);
  EXPECT_EQ(job.mode, Coordination::asynchronous);
  EXPECT_TRUE(job.overlap);
  EXPECT_EQ(job.steps, 1000);
  EXPECT_FALSE(job.flow_cap.has_value());
  EXPECT_EQ(job.gpus_per_host, 1);
  EXPECT_EQ(job.nics, 1);
}

TEST(ReadJob, ReadsWhatTheSimulationLooksAt) {
  const TrainingJob job = read(R"({"model_bytes": 1, "bandwidth": 1, "update": 0, "rho_threshold": 0.6, "servers": 4,
    "link": "fcfs", "mode": "allreduce", "overlap": false, "steps": 50, "flow_cap": 0.5, "gpus_per_host": 8, "nics": 2,
    "units": {"size": "bytes", "time": "seconds"}, "machine": {"cores": 2}, "workload": "vowels",
    "workers": [{"batch": 1, "forward": 0, "backward": 0}]})");
  EXPECT_EQ(job.rho_threshold, 0.6);
  EXPECT_EQ(job.servers, 4);
  EXPECT_EQ(job.link, LinkSharing::in_order);
  EXPECT_EQ(job.mode, Coordination::allreduce);
  EXPECT_FALSE(job.overlap);
  EXPECT_EQ(job.steps, 50);
  EXPECT_EQ(job.flow_cap, 0.5);
  EXPECT_EQ(job.gpus_per_host, 8);
  EXPECT_EQ(job.nics, 2);
  EXPECT_EQ(job.workers(), 1) << "a class that does not say how many is one worker";
}

TEST(ReadJob, TakesTotalsFromLayers) {
  const TrainingJob job = read(with_layers(R"([{"name": "a", "bytes": 300, "forward": 1, "backward": 2, "update": 0.5},
                                               {"name": "b", "bytes": 100, "forward": 3, "backward": 4, "update": 0.25}])"));
  EXPECT_EQ(job.model_bytes, 400);
  EXPECT_EQ(job.classes[0].forward, 4);
  EXPECT_EQ(job.classes[0].backward, 6);
  EXPECT_EQ(job.classes[0].update, 0.75);
  ASSERT_EQ(job.classes[0].steps.size(), 1U);
  EXPECT_THAT(job.classes[0].steps[0][1].after, ElementsAre(0)) << "without 'after': the layer before";
  EXPECT_THAT(job.notes, IsEmpty());
}

TEST(ReadJob, SharesTheUpdateOfTheJobAmongLayersByBytes) {
  const TrainingJob job = read(with_layers(R"([{"name": "a", "bytes": 300, "forward": 1, "backward": 2},
                                               {"name": "b", "bytes": 100, "forward": 3, "backward": 4}])",
                                           R"(, "update": 2)"));
  EXPECT_EQ(job.classes[0].steps[0][0].update, 1.5);
  EXPECT_EQ(job.classes[0].steps[0][1].update, 0.5);
  EXPECT_EQ(job.classes[0].update, 2);
}

TEST(ReadJob, TakesTheMeanOfProfiledSteps) {
  const TrainingJob job = read(R"({"bandwidth": 1, "workers": [{"batch": 8, "profile": [
    [{"name": "a", "bytes": 4, "forward": 1, "backward": 2, "update": 0}],
    [{"name": "a", "bytes": 4, "forward": 3, "backward": 6, "update": 1}]]}]})");
  EXPECT_EQ(job.classes[0].forward, 2);
  EXPECT_EQ(job.classes[0].backward, 4);
  EXPECT_EQ(job.classes[0].update, 0.5);
  EXPECT_EQ(job.model_bytes, 4);
  EXPECT_EQ(job.classes[0].steps.size(), 2U);
}

TEST(ReadJob, FollowsBranchesByNameOrNumberInAnyOrder) {
  const TrainingJob job = read(with_layers(R"([
    {"name": "sum", "bytes": 1, "forward": 0, "backward": 0, "update": 0, "after": ["left", "right"]},
    {"name": "stem", "bytes": 1, "forward": 0, "backward": 0, "update": 0, "after": []},
    {"name": "left", "bytes": 1, "forward": 0, "backward": 0, "update": 0, "after": "stem"},
    {"name": "right", "bytes": 1, "forward": 0, "backward": 0, "update": 0, "after": [1]}])"));
  const ProfiledStep& step = job.classes[0].steps[0];
  EXPECT_EQ(step[0].name, "stem");
  EXPECT_EQ(step[3].name, "sum");
  EXPECT_THAT(step[3].after, ElementsAre(1, 2));
}

TEST(ReadJob, NotesTotalsThatAreNotThoseOfTheLayers) {
  const TrainingJob job = read(with_layers(R"([{"name": "a", "bytes": 300, "forward": 1, "backward": 2, "update": 0}])",
                                           R"(, "model_bytes": 400, "update": 1)"));
  EXPECT_EQ(job.model_bytes, 400);
  EXPECT_EQ(job.classes[0].update, 1);
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("update is 1, and the layers of workers[0] have 0 together"),
                                     HasSubstr("model_bytes is 400, and the layers of all classes have 300 together")));
}

TEST(ReadJob, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object, found a list"));
  EXPECT_THAT(refusal("{"), HasSubstr("expected JSON: it ends within its JSON, at line 1, column 2"));
  EXPECT_THAT(refusal(""), HasSubstr("expected JSON: it ends within its JSON"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "servers": 2, "bandwidth": 1})"),
              HasSubstr("the key \"bandwidth\" stands twice in one object"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "workers": [{"count": 1}, {"batch": 1, "batch": 2}]})"),
              HasSubstr("the key \"batch\" stands twice in one object"));
  EXPECT_THAT(refusal(R"({"bandwith": 1})"), HasSubstr("bandwith: there is no such key; did you mean bandwidth?"));
  EXPECT_THAT(refusal(R"({"model_bytes": 1})"), HasSubstr("bandwidth: missing; expected bytes per second"));
  EXPECT_THAT(refusal(R"({"bandwidth": 0})"), HasSubstr("bandwidth: expected bytes per second, more than 0"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1e30})"),
              HasSubstr("bandwidth: expected bytes per second, more than 0 and at most 1e18"));
  EXPECT_THAT(refusal(R"({"bandwidth": "1"})"), HasSubstr("found \"1\""));
  EXPECT_THAT(refusal(R"({"bandwidth": 1e999})"), HasSubstr("expected JSON: a number is too large"));
  EXPECT_THAT(refusal(R"({"bandwidth": NaN})"), HasSubstr("expected JSON: line 1, column 15 is no JSON"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1})"), HasSubstr("workers: missing; expected a list of classes of workers"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "workers": []})"),
              HasSubstr("workers: expected a list of classes of workers; it is empty"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "workers": [3]})"), HasSubstr("workers[0]: expected an object, found 3"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "servers": 1.5})"), HasSubstr("servers: expected a whole number from 1"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "rho_threshold": 2})"),
              HasSubstr("rho_threshold: expected a number from 0 to 1"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "link": "pfs"})"),
              HasSubstr("link: expected one of ps, fcfs; found \"pfs\""));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "overlap": 1})"), HasSubstr("overlap: expected true or false; found 1"));
  EXPECT_THAT(refusal(R"({"units": {"time": "ms", "size": "bytes"}})"), HasSubstr("times are in seconds"));
}

TEST(ReadJob, NamesTheClassThatIsWrong) {
  EXPECT_THAT(refusal(with_class(R"("batch": 1, "forward": 1)")),
              HasSubstr("workers[0].backward: missing; expected seconds"));
  EXPECT_THAT(refusal(with_class(R"("batch": 1, "forward": -1, "backward": 1)")),
              HasSubstr("workers[0].forward: expected seconds from 0 to 1e9, as in 0.04; found -1"));
  EXPECT_THAT(refusal(with_class(R"("batch": 0, "forward": 1, "backward": 1)")), HasSubstr("workers[0].batch: "));
  EXPECT_THAT(refusal(with_class(R"("forward": 1, "backward": 1)")), HasSubstr("workers[0].batch: missing"));
  EXPECT_THAT(refusal(with_class(R"("count": 0, "batch": 1)")),
              HasSubstr("workers[0].count: expected a whole number from 1"));
  EXPECT_THAT(refusal(with_class(R"("count": "many", "batch": 1)")), HasSubstr("workers[0].count: "));
  EXPECT_THAT(refusal(with_class(R"("rank": 3)")), HasSubstr("workers[0].rank: there is no such key"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "model_bytes": 1, "workers": [{"batch": 1, "forward": 1, "backward": 1}]})"),
              HasSubstr("update: missing; expected seconds"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "update": 0, "workers": [{"batch": 1, "forward": 1, "backward": 1}]})"),
              HasSubstr("model_bytes: missing; expected bytes, more than 0"));
  EXPECT_THAT(refusal(R"({"bandwidth": 1, "update": 0, "model_bytes": 1, "workers": [
                {"count": 9000000, "batch": 1, "forward": 1, "backward": 1},
                {"count": 9000000, "batch": 1, "forward": 1, "backward": 1}]})"),
              HasSubstr("expected at most 10000000 workers in all; found 18000000"));
}

TEST(ReadJob, RefusesTransfersThatNoNumberHolds) {
  const auto with = [](const std::string& bytes, const std::string& bandwidth) {
    return R"({"update": 0, "workers": [{"batch": 1, "forward": 1, "backward": 1}], "model_bytes": )" + bytes +
           R"(, "bandwidth": )" + bandwidth + "}";
  };
  EXPECT_THAT(refusal(with("1e8", "1e-300")),
              HasSubstr("bandwidth: a transfer of the model takes 1e+308 s; expected 1e-15 to 1e+09"));
  EXPECT_THAT(refusal(with("1e-300", "1e18")), HasSubstr("bandwidth: a transfer of the model takes "));
  EXPECT_EQ(read(with("1e-9", "1")).model_bytes, 1e-9);
}

TEST(ReadJob, RefusesFlowsForWhichTheModelTakesTooLong) {
  const std::string job = R"({"model_bytes": 1e8, "bandwidth": 1e9, "update": 0, "flow_cap": )";
  const std::string workers = R"(, "workers": [{"batch": 1, "forward": 1, "backward": 1}]})";
  EXPECT_EQ(refusal(job + "1" + workers), "read");
  EXPECT_THAT(refusal(job + "1e-5" + workers), HasSubstr("flow_cap: a transfer of the model takes 1e+13 s"));
}

/// The watchdog ends a reader that looks through all classes for each of them.
TEST(ReadJob, ReadsManyClasses) {
  constexpr int kClasses = 200'000;
  std::string classes;
  for (int index = 0; index < kClasses; ++index) {
    classes += text(index > 0 ? "," : "", R"({"batch": 1, "forward": 1, "backward": )", index, "}");
  }
  const auto job = read_job(R"({"model_bytes": 1, "bandwidth": 1, "update": 0, "workers": [)" + classes + "]}", "");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->workers(), kClasses);
}

TEST(ReadJob, NamesTheLayerThatIsWrong) {
  EXPECT_THAT(refusal(with_layers("[]")), HasSubstr("workers[0].layers: expected a list of layers; it is empty"));
  EXPECT_THAT(refusal(with_layers("{}")), HasSubstr("workers[0].layers: expected a list of layers; found an object"));
  EXPECT_THAT(refusal(with_layers("[1]")), HasSubstr("workers[0].layers[0]: expected an object, found 1"));
  EXPECT_THAT(refusal(with_layers(R"([{"bytes": 1}])")),
              HasSubstr("workers[0].layers[0].name: a layer without a name"));
  EXPECT_THAT(refusal(with_layers(R"([{"name": "a"}, {"name": "a"}])")),
              HasSubstr("workers[0].layers[1].name: a second layer \"a\""));
  EXPECT_THAT(refusal(with_layers(R"([{"name": "a", "bytes": 1, "forward": 1, "backward": 1}])")),
              HasSubstr("workers[0].layers[0].update: missing"));
  EXPECT_THAT(refusal(with_layers(R"([{"name": "a", "bytes": -1, "forward": 1, "backward": 1}])")),
              HasSubstr("workers[0].layers[0].bytes: expected bytes from 0"));
  EXPECT_THAT(refusal(with_layers(R"([{"name": "a", "bytes": 0, "forward": 1, "backward": 1, "update": 1}])")),
              HasSubstr("none of the layers has bytes"));
  const auto after = [](const std::string& value) {
    return with_layers(R"([{"name": "a", "bytes": 1, "forward": 1, "backward": 1, "update": 1, "after": )" + value +
                       "}]");
  };
  EXPECT_THAT(refusal(after(R"(["b"])")), HasSubstr("workers[0].layers[0].after[0]: there is no layer \"b\""));
  EXPECT_THAT(refusal(after("[1]")), HasSubstr("expected the name of a layer, or its number from 0 to 0; found 1"));
  EXPECT_THAT(refusal(after("[-1]")), HasSubstr("found -1"));
  EXPECT_THAT(refusal(after(R"(["a"])")),
              HasSubstr("workers[0].layers: the layers read from each other in a circle: a → a"));
}

TEST(ReadJob, WantsTheSameLayersInEachStepAndClass) {
  const std::string a = R"({"name": "a", "bytes": 4, "forward": 1, "backward": 2, "update": 0})";
  const std::string b = R"({"name": "a", "bytes": 5, "forward": 1, "backward": 2, "update": 0})";
  const auto job = [](const std::string& classes) { return R"({"bandwidth": 1, "workers": [)" + classes + "]}"; };
  EXPECT_THAT(refusal(job(R"({"batch": 1, "profile": [[)" + a + "], [" + b + "]]}")),
              HasSubstr("workers[0].profile[1]: its layers differ from those of step 0"));
  EXPECT_THAT(refusal(job(R"({"batch": 1, "profile": [[)" + a + "], []]}")),
              HasSubstr("workers[0].profile[1]: a step without layers"));
  EXPECT_THAT(refusal(job(R"({"batch": 1, "profile": []})")),
              HasSubstr("workers[0].profile: expected a list of steps"));
  EXPECT_THAT(refusal(job(R"({"batch": 1, "layers": [)" + a + R"(], "profile": [[)" + a + "]]}")),
              HasSubstr("expected layers or a profile, not both"));
  EXPECT_THAT(refusal(job(R"({"batch": 1, "layers": [)" + a + R"(]}, {"batch": 1, "layers": [)" + b + "]}")),
              AllOf(HasSubstr("workers[1]: its layers differ"), HasSubstr("all workers train one model")));
}

std::string with_measured(const std::string& runs) {
  return R"({"model_bytes": 1, "bandwidth": 1, "update": 0, "workers": [{"batch": 1, "forward": 1, "backward": 1},
             {"batch": 1, "forward": 2, "backward": 2}], "measured": )" +
         runs + "}";
}

TEST(ReadJob, ReadsWhatWasMeasured) {
  const TrainingJob job =
      read(with_measured(R"([{"workers": [2, 0], "steps_per_s": 1.5}, {"workers": [1, 3], "steps_per_s": 2}])"));
  ASSERT_EQ(job.measured.size(), 2U);
  EXPECT_THAT(job.measured[1].counts, ElementsAre(1, 3));
  EXPECT_EQ(job.measured[0].steps_per_second, 1.5);
  EXPECT_THAT(refusal(with_measured("[]")), HasSubstr("measured: expected a list of runs; it is empty"));
  EXPECT_THAT(refusal(with_measured(R"([{"workers": 2, "steps_per_s": 1}])")),
              HasSubstr("measured[0].workers: expected a list of 2 numbers of workers, one for each class; found 2"));
  EXPECT_THAT(refusal(with_measured(R"([{"workers": [0, 0], "steps_per_s": 1}])")), HasSubstr("measured[0].workers: "));
  EXPECT_THAT(refusal(with_measured(R"([{"workers": [1, -1], "steps_per_s": 1}])")),
              HasSubstr("measured[0].workers: "));
  EXPECT_THAT(refusal(with_measured(R"([{"workers": [1, 1]}])")), HasSubstr("measured[0].steps_per_s: missing"));
  EXPECT_THAT(refusal(with_measured(R"([{"workers": [1, 1], "steps_per_s": 0}])")),
              HasSubstr("measured[0].steps_per_s: expected steps per second, more than 0"));
}

}  // namespace
}  // namespace stretto
