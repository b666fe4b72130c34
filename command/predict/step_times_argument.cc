#include "command/predict/step_times_argument.h"

#include "stretto/simulate/network_spec.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

constexpr std::size_t kBlock = 10;  // steps that are drawn together

}  // namespace

void StepTimesArgument::add_options(CommandLine& line) {
  line.positional("FILE", CommandLine::Presence::optional,
                  "How long each rank computed in each step: a CSV file of rows step,rank,seconds, of any program; or "
                  "the folder of a run (stretto train --out).",
                  into(file));
  line.heading("The job");
  line.option("--ranks", "N", "Without FILE: how many ranks. Default 8.", into(ranks, 1, JobMemory::kMaxRanks, "8"));
  line.option("--compute", "TIME", "Without FILE: what a step of a rank computes.", into(compute, "50ms"));
  line.option("--imbalance", "SPEC",
              "Without FILE: who is slow on top of it, as stretto train --imbalance has it. Default none.",
              into(imbalance));
  line.option(
      "--noise", "SHARE",
      "Without FILE: what each step takes longer, drawn for it, in the mean as a share of --compute. No two ranks "
      "are alike, and who comes first decides whose gradients are fresh. Default 0.01.",
      into(noise, 0, 10, "0.01"));
  line.option("--model-bytes", "SIZE", "Bytes of the model, whose messages take their time. Default 100 MB.",
              [this](std::string_view option, const std::string& text) {
                model_bytes = parse_bytes(option, text, "100MiB");
                if (model_bytes == 0) reject(option, text, "expected more than 0", "100MiB");
              });
  line.option("--network", "SPEC",
              "Between the ranks, one on each host: latency=TIME, bandwidth=RATE of a host's card in each direction, "
              "overhead=TIME of a message at its sender, jitter=TIME. Default "
              "latency=1us,bandwidth=10GB/s,overhead=100ns.",
              [this](std::string_view, const std::string& text) {
                parse_network(text);
                network = text;
              });
  line.heading("The simulation");
  line.option("--steps", "N", "Steps of each rank. Default 100.", into(steps, 1, 1'000'000, "100"));
  line.option("--replicas", "N", "Simulates the job so often, each time with other steps of the same job. Default 5.",
              into(replicas, 1, 10'000, "20"));
  line.option("--seed", "N", "Of all that is drawn. Default 1.", into(seed, 1, "1"));
}

StepTimes StepTimesArgument::read() const {
  if (file.empty() == (compute == Duration{0})) {
    throw UsageError("expected a FILE of step times, or --compute, as in --compute 50ms --imbalance ucf101");
  }
  if (!file.empty()) return read_step_times(file).or_throw();
  return replica(StepTimes(1, {0}), 0);
}

StepTimes StepTimesArgument::replica(const StepTimes& all, int number) const {
  const std::uint64_t its_seed = seed + static_cast<std::uint64_t>(number);
  const auto length = static_cast<std::size_t>(steps);
  if (!file.empty()) return all.resampled(its_seed, length, kBlock);
  const double step = seconds(compute);
  return drawn_step_times(Imbalance::parse(imbalance, ranks), step, ranks, length, its_seed)
      .with_noise(its_seed, noise * step);
}

std::vector<StepTimes> StepTimesArgument::all_replicas(const StepTimes& all) const {
  std::vector<StepTimes> made;
  for (int number = 0; number < replicas; ++number) made.push_back(replica(all, number));
  return made;
}

}  // namespace stretto::command
