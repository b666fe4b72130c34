#include "command/bench/timed_predictions.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "command/predict/finalists.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/random.h"
#include "stretto/predict/coarse/coarse_prediction.h"
#include "stretto/predict/fine/step_simulation.h"
#include "stretto/predict/fine/tournament.h"
#include "stretto/predict/vector/ready_times.h"

namespace stretto::command {

namespace {

constexpr double kMillion = 1e6;
constexpr MessageCosts kMessageCosts{.latency = 1e-6, .overhead = 1e-7, .gap = 2e-7, .byte_gap = 1e-10};

/// Seconds that `run` takes, which returns something that depends on its result, so that none of it is left out.
double seconds_of(const std::function<double()>& run) {
  [[maybe_unused]] static volatile double result;
  const TimePoint begin = SteadyClock().now();
  result = run();
  return seconds(SteadyClock().now() - begin);
}

std::vector<double> drawn_times(std::size_t count) {
  Random random(1);
  std::vector<double> times;
  for (std::size_t index = 0; index < count; ++index) times.push_back(random.uniform());
  return times;
}

/// Events per second where each that happens is followed by another (the hold model: Jones, CACM 29(4), 1986).
double events_per_second(std::size_t pending, std::size_t count) {
  const std::vector<double> ahead = drawn_times(1 << 16);
  Tournament events(pending);
  for (std::size_t slot = 0; slot < pending; ++slot) events.set(slot, ahead[slot % ahead.size()], slot);
  return static_cast<double>(count) / seconds_of([&] {
           for (std::size_t event = 0; event < count; ++event) {
             const std::size_t slot = events.first();
             events.set(slot, events.time() + ahead[event % ahead.size()], slot);
           }
           return events.time();
         });
}

double ring_seconds() {
  std::vector<double> ready = drawn_times(1024);
  return seconds_of([&] { return ring_allreduce(std::move(ready), 4e6, kMessageCosts).front(); });
}

double doubling_seconds() {
  std::vector<double> ready = drawn_times(1 << 20);
  return seconds_of([&] { return recursive_doubling(std::move(ready), 4e3, kMessageCosts).front(); });
}

/// The most memory that a process has which does this and nothing else, in megabytes; 0 where none could be started.
double doubling_megabytes() {
  const pid_t child = ::fork();
  if (child == 0) {
    doubling_seconds();
    ::_exit(0);
  }
  rusage used{};
  if (child < 0 || ::wait4(child, nullptr, 0, &used) != child) return 0;
  return static_cast<double>(used.ru_maxrss) * 1024 / kMillion;
}

/// An asynchronous job on links that all share, which is what costs the most.
double asynchronous_seconds(const PredictionLoad& load) {
  TrainingJob job{.bandwidth = 1.25e9, .steps = load.steps};
  Random random(2);
  ProfiledStep layers;
  for (int layer = 0; layer < load.layers; ++layer) {
    layers.push_back({.name = "layer",
                      .bytes = 1e5 + 1e6 * random.uniform(),
                      .forward = 1e-4 + 1e-3 * random.uniform(),
                      .backward = 2e-4 + 2e-3 * random.uniform(),
                      .update = 1e-5,
                      .after = layer > 0 ? std::vector{layer - 1} : std::vector<int>{}});
  }
  job.classes = {{.count = load.workers, .batch = 32, .steps = {layers}}};
  return seconds_of([&] { return simulate_steps(job, {}).steps_per_s; });
}

double coarse_seconds() {
  const TrainingJob job{
      .model_bytes = 1e8,
      .bandwidth = 1.25e9,
      .classes = {{.count = 10'000, .batch = 32, .forward = 0.03, .backward = 0.06, .update = 0.002}}};
  return seconds_of([&] { return predict_coarse(job).basic.steps_per_second; });
}

const SimulatedHosts kHosts{.network = "", .model_bytes = 1'000'000};

/// All settings for a job, each with all replicas.
double sweep_seconds(const PredictionLoad& load) {
  std::vector<StepTimes> replicas;
  for (int replica = 0; replica < load.replicas; ++replica) {
    const auto seed = static_cast<std::uint64_t>(replica) + 1;
    replicas.push_back(drawn_step_times(Imbalance::parse("cloud", load.ranks), 0.1, load.ranks, 100, seed));
  }
  const std::vector<Choice> settings = settings_for(load.ranks, kHosts);
  return seconds_of([&] { return try_shapes(settings, replicas, kHosts, 1, 1).front()->rates.front(); });
}

}  // namespace

std::vector<PredictionSpeed> time_predictions(int repeats, const PredictionLoad& load) {
  const auto of = [repeats](const std::function<double()>& measure) {
    std::vector<double> values;
    for (int repeat = 0; repeat < repeats; ++repeat) values.push_back(measure());
    return median(values);
  };
  const double megabytes = doubling_megabytes();  // first, as the process takes along what this one has
  const double ring = of(ring_seconds);
  const double doubling = of(doubling_seconds);
  return {{"events_1000_per_s", "events, 1000 pending",
           of([&] { return events_per_second(1000, load.events); }) / kMillion, "M/s"},
          {"events_16000_per_s", "events, 16000 pending",
           of([&] { return events_per_second(16000, load.events); }) / kMillion, "M/s"},
          {"ring_1024_ms", "allreduce in a ring of 1024 ranks", ring * 1e3, "ms"},
          {"ring_messages_per_s", "its messages", 2 * 1023 * 1024 / ring / kMillion, "M/s"},
          {"doubling_1048576_ms", "recursive doubling, 1048576 ranks", doubling * 1e3, "ms"},
          {"doubling_messages_per_s", "its messages", 20 * 1048576 / doubling / kMillion, "M/s"},
          {"doubling_1048576_mb", "its process", megabytes, "MB"},
          {"coarse_10000_ms", "by formulas, 10000 equal workers", of(coarse_seconds) * 1e3, "ms"},
          {"fine_1024_s", "by simulation, 1024 workers, 160 layers, 100 steps",
           of([&] { return asynchronous_seconds(load); }), "s"},
          {"settings_64_s",
           fmt::format("{} settings by shape, 64 ranks, 100 steps, 200 replicas", settings_for(64, kHosts).size()),
           of([&] { return sweep_seconds(load); }), "s"}};
}

}  // namespace stretto::command
