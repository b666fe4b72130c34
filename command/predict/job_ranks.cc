#include "command/predict/job_ranks.h"

#include <algorithm>
#include <utility>

#include "command/statistics/statistics.h"

namespace stretto::command {

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
