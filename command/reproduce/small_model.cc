#include "command/reproduce/small_model.h"

#include <fmt/format.h>

#include "stretto/imbalance/duration.h"

namespace stretto::command {

namespace {

constexpr int kImages = 8;
constexpr int kLatencies = 125;  // of a message in a step
constexpr int kDrawn = 100;      // of log-normal steps all but one part in so many is drawn
constexpr const char* kLogNormal = "lognormal:";

}  // namespace

TrainOptions small_model(const ReproduceCommand& command, int ranks, double lr) {
  TrainOptions options = base_options(command, "digits");
  options.ranks = ranks;
  options.batch = kImages;
  options.lr = lr;
  options.momentum = 0.9;
  options.data = "labels:3";
  options.simulated = true;
  const Duration latency = from_seconds(seconds(step_of(command)) * command.scale / kLatencies);
  options.network = fmt::format("latency={},bandwidth=10GB/s", to_text(latency));
  options.evaluate_every = static_cast<std::uint64_t>(ranks);
  return options;
}

Duration step_of(const ReproduceCommand& command) {
  return command.pace * kImages;
}

TrainOptions with_lognormal_steps(TrainOptions options, const ReproduceCommand& command) {
  const Duration step = step_of(command);
  options.pace = command.pace / kDrawn;
  options.imbalance = fmt::format("{}mean={},cv=0.42", kLogNormal, to_text(step - step / kDrawn));
  return options;
}

double seconds_of_all_steps(const TrainOptions& options) {
  const int drawn = options.imbalance.starts_with(kLogNormal) ? kDrawn : 1;
  const double step = seconds(options.pace) * options.batch * drawn;
  return step * options.time_scale * static_cast<double>(options.steps);
}

}  // namespace stretto::command
