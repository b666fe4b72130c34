#include "command/predict/described_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "command/statistics/statistics.h"
#include "stretto/base/files/input_file.h"
#include "stretto/observe/whole_file.h"
#include "stretto/predict/model/training_job.h"

namespace stretto::command {

TrainingJob read_job_file(const std::string& file) {
  if (file != "-") return read_job(read_whole_file(file).or_throw(), file).or_throw();
  return read_job(read_all(open_standard_input()).or_throw(), "standard input").or_throw();
}

void describe_job_file(CommandLine& line) {
  line.note(
      "A job is a JSON object: {\"model_bytes\": 1e8, \"bandwidth\": 1.25e9, \"update\": 0.002, \"rho_threshold\": "
      "0.5, "
      "\"servers\": 1, \"workers\": [{\"count\": 8, \"forward\": 0.03, \"backward\": 0.06, \"batch\": 32}]}, in bytes, "
      "bytes per second and seconds. workers are classes of equal ones. docs/prediction.md says what else there may "
      "be, "
      "and the formulas.");
}

void JobArgument::add_options(CommandLine& line) {
  line.positional("FILE", CommandLine::Presence::required, "The job, as JSON; - is standard input.", into(file));
  line.heading("The job");
  line.option("--workers", "N", "How many workers there are, of a job with one class. Default: what the file says.",
              into(workers, 1, 10'000'000, "16"));
}

TrainingJob JobArgument::read() const {
  TrainingJob job = read_job_file(file);
  if (workers == 0) return job;
  if (job.classes.size() > 1) {
    throw UsageError(fmt::format("--workers {}: the job has {} classes of workers; say count in each of them, in {}",
                                 workers, job.classes.size(), file));
  }
  job.classes.front().count = workers;
  return job;
}

std::vector<AlikeRanks> ranks_of(const TrainingJob& job) {
  std::vector<AlikeRanks> ranks;
  for (const WorkerClass& workers : job.classes) {
    AlikeRanks& alike = ranks.emplace_back(AlikeRanks{.count = workers.count, .computed = {}});
    for (const ProfiledStep& step : workers.steps) {
      double sum = 0;
      for (const Layer& layer : step) sum += layer.forward + layer.backward + layer.update;
      alike.computed.push_back(sum);
    }
    if (alike.computed.empty()) alike.computed.push_back(workers.forward + workers.backward + workers.update);
  }
  return ranks;
}

int count(const std::vector<AlikeRanks>& ranks) {
  int count = 0;
  for (const AlikeRanks& alike : ranks) count += alike.count;
  return count;
}

double mean_step(const std::vector<AlikeRanks>& ranks) {
  double sum = 0;
  for (const AlikeRanks& alike : ranks) sum += alike.count * mean(alike.computed);
  return sum / count(ranks);
}

StepTimes drawn_step_times(const Imbalance& imbalance, const std::vector<AlikeRanks>& ranks, std::size_t steps,
                           std::uint64_t seed) {
  const int all = count(ranks);
  const auto width = static_cast<std::size_t>(all);
  std::vector<float> times(steps * width);
  std::size_t first = 0;
  for (const AlikeRanks& alike : ranks) {
    // Drawn for all ranks, so that what a rank computes does not depend on how many classes stand before its own.
    const StepTimes drawn = drawn_step_times(imbalance, alike.computed, all, steps, seed);
    const auto its = static_cast<std::size_t>(alike.count);
    for (std::size_t step = 0; step < steps; ++step) {
      std::ranges::copy(drawn.step(step).subspan(first, its),
                        times.begin() + static_cast<std::ptrdiff_t>(step * width + first));
    }
    first += its;
  }
  return {all, std::move(times)};
}

std::vector<ModelLayer> layers_of(const TrainingJob& job) {
  const std::vector<ProfiledStep>& steps = job.classes.front().steps;
  std::vector<ModelLayer> layers;
  if (!steps.empty()) layers.resize(steps.front().size());
  for (const ProfiledStep& step : steps) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i].bytes = step[i].bytes;
      layers[i].forward += step[i].forward / static_cast<double>(steps.size());
      layers[i].backward += step[i].backward / static_cast<double>(steps.size());
    }
  }
  return layers;
}

std::vector<std::string> unused_keys(const TrainingJob& job) {
  const TrainingJob usual;
  std::vector<std::string> keys;
  const auto note = [&](const char* key, bool says) {
    if (says) keys.emplace_back(key);
  };
  note("rho_threshold", job.rho_threshold != usual.rho_threshold);
  note("servers", job.servers != usual.servers);
  note("link", job.link != usual.link);
  note("mode", job.mode != usual.mode);
  note("overlap", job.overlap != usual.overlap);
  note("steps", job.steps != usual.steps);
  note("flow_cap", job.flow_cap != usual.flow_cap);
  note("gpus_per_host", job.gpus_per_host != usual.gpus_per_host);
  note("nics", job.nics != usual.nics);
  return keys;
}

}  // namespace stretto::command
