#include "stretto/train/profile/training_profile.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using nlohmann::ordered_json;

double nanoseconds(double seconds) {
  return std::round(seconds * 1e9) / 1e9;
}

/// A number without a fraction as it is mostly written.
ordered_json number(double value) {
  constexpr double kExact = 1e15;
  if (std::abs(value) < kExact && value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

std::string line_of(const Layer& layer, const ProfiledStep& step) {
  ordered_json after = ordered_json::array();
  for (const int other : layer.after) after.push_back(step[static_cast<std::size_t>(other)].name);
  return ordered_json{{"name", layer.name},
                      {"bytes", number(layer.bytes)},
                      {"forward", nanoseconds(layer.forward)},
                      {"backward", nanoseconds(layer.backward)},
                      {"update", nanoseconds(layer.update)},
                      {"after", std::move(after)}}
      .dump();
}

ordered_json workload_of(const TrainingProfile& profile, const ProfiledJob& job) {
  ordered_json workload{{"name", job.workload},
                        {"warm_up", job.options.warm_up},
                        {"traced", job.options.traced},
                        {"steps", profile.steps.size()},
                        {"unused", profile.unused}};
  if (job.cost) {
    workload["profiling_cost"] = {{"median", job.cost->median}, {"low", job.cost->low}, {"high", job.cost->high}};
  }
  return workload;
}

}  // namespace

std::string to_job(const TrainingProfile& profile, const ProfiledJob& job) {
  std::string steps;
  for (const ProfiledStep& step : profile.steps) {
    steps += steps.empty() ? "\n  [" : ",\n  [";
    for (const Layer& layer : step) steps += text(&layer == &step.front() ? "" : ",\n   ", line_of(layer, step));
    steps += "]";
  }
  const ordered_json units{{"time", "seconds"}, {"size", "bytes"}};
  return text(
      "{\"units\": ", units.dump(), ",\n \"machine\": ", ordered_json(job.machine).dump(),
      ",\n \"workload\": ", workload_of(profile, job).dump(), ",\n \"bandwidth\": ", number(job.bandwidth).dump(),
      ",\n \"workers\": [{\"count\": 1, \"batch\": ", number(job.batch).dump(), ", \"profile\": [", steps, "]}]}\n");
}

}  // namespace stretto
