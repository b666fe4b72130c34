#include "command/predict/step_times_argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "command/cli/progress.h"
#include "command/predict/described_job.h"
#include "command/predict/simulated_choice.h"
#include "command/predict/trial.h"
#include "stretto/base/files/input_file.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/predict/measured/chrome_events.h"
#include "stretto/predict/measured/step_times.h"
#include "stretto/simulate/cluster.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

constexpr std::size_t kLongestBlock = 10;  // steps that are drawn together
constexpr std::size_t kEnoughSteps = 30;   // for intervals: with fewer there are at most five blocks side by side
constexpr int kRanks = 8;
constexpr std::uint64_t kModelBytes = 100'000'000;

/// Steps that are drawn together, of so many: no more than there are such blocks side by side, or the replicas are all
/// alike.
std::size_t block_of(std::size_t steps) {
  const auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(steps)));
  return std::clamp<std::size_t>(root, 1, kLongestBlock);
}

/// What of a job is not what it seems, or not looked at: which settings there are is asked of a whole run.
std::vector<std::string> notes_of(const std::string& file, const TrainingJob& job) {
  std::vector<std::string> notes;
  for (const std::string& note : job.notes) notes.push_back(fmt::format("{}: {}", file, note));
  const std::vector<std::string> unused = unused_keys(job);
  if (!unused.empty()) notes.push_back(fmt::format("{}: not used here: {}", file, fmt::join(unused, ", ")));
  return notes;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// Since a trace is read more than once. Throws Failure.
void copy_standard_input(const std::string& file) {
  InputFile input = open_standard_input(FileContent::packed).or_throw();
  std::ofstream copy(file, std::ios::binary);
  if (input.stream().peek() != EOF) copy << input.stream().rdbuf();
  input.whole().or_throw();
  if (!copy.flush()) throw Failure({Errc::io, fmt::format("cannot copy standard input to '{}'", file)});
}

}  // namespace

StepTimes read_measured_times(const std::string& file) {
  std::optional<Progress> shown;
  const auto progress = [&](std::uint64_t done, std::uint64_t total) {
    constexpr std::uint64_t kMega = 1'000'000;
    if (!shown) shown.emplace("reading", "MB", std::max<std::uint64_t>(1, total / kMega));
    shown->update(done / kMega);
  };
  return read_step_times(file, progress).or_throw();
}

void StepTimesArgument::add_options(CommandLine& line) {
  line.positional("FILE", CommandLine::Presence::optional,
                  "How long each rank computed in each step: a CSV file of rows step,rank,seconds, of any program; the "
                  "folder of a run (stretto train --out); a folder with the traces of PyTorch's profiler, one *.json a "
                  "rank; or a Horovod timeline. Or a profile of one worker (stretto profile). - is one of these files "
                  "from standard input.",
                  into(file));
  line.heading("The job");
  line.option(
      "--ranks", "N",
      "How many ranks. Default 8, or those of FILE. Beside a FILE of measured times: others like these, each as "
      "long, as long slow and as widely spread as one that was measured, but independent of each other.",
      into(ranks, 1, JobMemory::kMaxRanks, "8"));
  line.option("--compute", "TIME", "Without FILE: what a step of a rank computes.", into(compute, "50ms"));
  line.option(
      "--imbalance", "SPEC",
      "Without FILE, or of a profile: who is slow on top of it, as stretto train --imbalance has it. Default none.",
      into(imbalance));
  line.option("--noise", "SHARE",
              "Without FILE, or of a profile: what each step takes longer, drawn for it, in the mean as a share of it. "
              "No two ranks "
              "are alike, and who comes first decides whose gradients are fresh. Default 0.01.",
              into(noise, 0, 10, "0.01"));
  line.option("--model-bytes", "SIZE",
              "Bytes of the model, whose messages take their time. Default 100 MB, and a note where FILE has measured "
              "times; of a profile what it says; of the "
              "folder of a run what the run had: next to nothing among real processes, which share a host.",
              [this](std::string_view option, const std::string& text) {
                model_bytes = parse_bytes(option, text, "100MB");
                if (model_bytes == 0) reject(option, text, "expected more than 0", "100MB");
              });
  line.option("--network", "SPEC",
              "Between the ranks, one on each host: latency=TIME, bandwidth=RATE of a host's card in each direction, "
              "overhead=TIME of a message at its sender, jitter=TIME, sharing=fifo or fair, unevenness=NUMBER. Default "
              "latency=1us,bandwidth=10GB/s,overhead=100ns, or that of the simulated run in FILE, or with "
              "the bandwidth that a profile says, or with one at which sync takes what the collectives in traces of "
              "PyTorch take.",
              [this](std::string_view, const std::string& text) {
                parse_network(text);
                network = text;
              });
  line.heading("The simulation");
  line.option("--steps", "N",
              "Steps of each rank, or up to the end of a setting's period, as with H = 16. Default 100.",
              into(steps, 1, 1'000'000, "100"));
  line.option("--replicas", "N", "Simulates the job so often, each time with other steps of the same job. Default 5.",
              into(replicas, 1, 10'000, "20"));
  line.option("--seed", "N", "Of all that is drawn. Default 1.", into(seed, 1, "1"));
}

StepTimesSource StepTimesArgument::read() const {
  if (file.empty() == (compute == Duration{0})) {
    throw UsageError("expected a FILE of step times, or --compute, as in --compute 50ms --imbalance ucf101");
  }
  if (file != "-") return checked(file.empty() ? drawn_by_options() : of_file());
  const TemporaryFolder folder;
  StepTimesArgument spooled = *this;
  spooled.file = folder.path() + "/input";
  copy_standard_input(spooled.file);
  const auto named = [&](const std::string& message) { return replaced(message, spooled.file, "standard input"); };
  try {
    StepTimesSource source = spooled.checked(spooled.of_file());
    std::ranges::transform(source.notes_, source.notes_.begin(), named);
    return source;
  } catch (const UsageError& error) {
    throw UsageError(named(error.what()));
  } catch (const Failure& failure) {
    throw Failure({failure.error().code, named(failure.error().message)});
  }
}

StepTimesSource StepTimesArgument::checked(StepTimesSource source) const {
  try {
    require_virtual_time(source.all(), source.hosts(), static_cast<std::uint64_t>(steps));
  } catch (const UsageError& error) {
    throw UsageError(file.empty() ? error.what() : fmt::format("'{}': {}", file, error.what()));
  }
  return source;
}

StepTimesSource StepTimesArgument::drawn_by_options() const {
  return drawn({{ranks == 0 ? kRanks : ranks, {seconds(compute)}}}, {.model_bytes = kModelBytes});
}

StepTimesSource StepTimesArgument::of_file() const {
  std::error_code unknown;
  const bool is_profile =
      !std::filesystem::is_directory(file, unknown) && kind_of_trace(file).or_throw() == TraceKind::job;
  if (!is_profile) return measured();

  const TrainingJob job = read_job_file(file);
  if (network.empty() && job.bandwidth < kLeastBandwidth) {
    throw Failure({Errc::bad_input,
                   fmt::format("'{}': bandwidth: expected at least {:g} bytes per second, or --network; found {:g}",
                               file, kLeastBandwidth, job.bandwidth)});
  }
  NetworkOptions links = parse_network({});
  links.bytes_per_second = job.bandwidth;
  StepTimesSource source = drawn(asked_of(job), {.network = to_text(links),
                                                 .model_bytes = static_cast<std::uint64_t>(std::ceil(job.model_bytes)),
                                                 .layers = layers_of(job)});
  source.notes_ = notes_of(file, job);
  return source;
}

std::vector<AlikeRanks> StepTimesArgument::asked_of(const TrainingJob& job) const {
  std::vector<AlikeRanks> all = ranks_of(job);
  if (all.size() > 1 && ranks > 0) {
    throw UsageError(fmt::format("--ranks {}: the job has {} classes of workers; say count in each of them, in {}",
                                 ranks, all.size(), file));
  }
  if (mean_step(all) == 0 && imbalance == "none") {
    throw Failure({Errc::bad_input, fmt::format("'{}': a step of its workers takes no time; expected seconds", file)});
  }
  // The profile of one worker says nothing of how many there are to be.
  if (all.size() == 1 && (ranks > 0 || job.workers() == 1)) all.front().count = ranks > 0 ? ranks : kRanks;
  if (count(all) > JobMemory::kMaxRanks) {
    throw UsageError(fmt::format("{}: {} workers; expected at most {}{}", file, count(all), JobMemory::kMaxRanks,
                                 all.size() == 1 ? ", or --ranks" : ""));
  }
  return all;
}

StepTimesSource StepTimesArgument::measured() const {
  if (imbalance != "none") {
    reject("--imbalance", imbalance, "expected none beside a FILE that says who was slow");
  }
  StepTimes all = read_measured_times(file);
  if (ranks == 0 && all.ranks() > JobMemory::kMaxRanks) {
    throw UsageError(fmt::format("'{}' has times of {} ranks; expected at most {}, or --ranks", file, all.ranks(),
                                 JobMemory::kMaxRanks));
  }
  std::error_code unknown;
  const bool is_run = std::filesystem::exists(stored_as(file + "/config.json"), unknown);
  SimulatedHosts hosts = hosts_like(is_run ? hosts_of_run(file) : SimulatedHosts{.model_bytes = kModelBytes});
  std::vector<std::string> notes = all.notes();
  if (!is_run && network.empty() && all.exchange() && all.ranks() > 1) {
    hosts.network = network_of_exchange(*all.exchange(), all.ranks(), hosts.model_bytes);
    notes.push_back(exchange_note(all, hosts.network));
  } else if (!is_run && (network.empty() || model_bytes == 0)) {
    notes.push_back(assumption_note());
  }
  if (all.steps() < kEnoughSteps) {
    notes.push_back(fmt::format("{}: {} steps are too few for intervals: other steps of the job may differ by far more",
                                file, all.steps()));
  }
  const auto length = static_cast<std::size_t>(steps);
  if (ranks != 0) {
    const auto draw = [model = StepTimesModel::fit(all), ranks = ranks, length, seed = seed](int number) {
      return model.draw(ranks, length, seed + static_cast<std::uint64_t>(number));
    };
    StepTimesSource source(draw(0), draw, hosts, replicas);
    source.notes_ = std::move(notes);
    return source;
  }
  const auto draw = [all, length, seed = seed](int number) {
    return all.resampled(seed + static_cast<std::uint64_t>(number), length, block_of(all.steps()));
  };
  StepTimesSource source(std::move(all), draw, hosts, replicas);
  source.notes_ = std::move(notes);
  return source;
}

std::string StepTimesArgument::exchange_note(const StepTimes& all, const std::string& like) const {
  return fmt::format("{}: collectives take {:.3g} ms of a step: as over {} with {}; say --network where it is another",
                     file, 1e3 * *all.exchange(), like,
                     model_bytes == 0 ? "a model of 100 MB, which is assumed (--model-bytes)" : "this model");
}

std::string StepTimesArgument::assumption_note() const {
  std::vector<std::string> assumed, options;
  if (model_bytes == 0) {
    assumed.emplace_back("a model of 100 MB");
    options.emplace_back("--model-bytes");
  }
  if (network.empty()) {
    assumed.push_back(to_text(parse_network({})));
    options.emplace_back("--network");
  }
  return fmt::format("{}: does not say what messages take; assumed: {}; say {}", file, fmt::join(assumed, " and "),
                     fmt::join(options, " and "));
}

SimulatedHosts StepTimesArgument::hosts_like(const SimulatedHosts& known) const {
  return {.network = network.empty() ? known.network : network,
          .model_bytes = model_bytes == 0 ? known.model_bytes : model_bytes,
          .layers = known.layers};
}

StepTimesSource StepTimesArgument::drawn(const std::vector<AlikeRanks>& ranks, const SimulatedHosts& known) const {
  const Imbalance who = Imbalance::parse(imbalance, count(ranks));
  const auto length = static_cast<std::size_t>(steps);
  const auto draw = [=, seed = seed, noise = noise](int number) {
    const std::uint64_t its_seed = seed + static_cast<std::uint64_t>(number);
    return drawn_step_times(who, ranks, length, its_seed).with_noise(its_seed, noise * mean_step(ranks));
  };
  StepTimes first = draw(0);
  return {std::move(first), draw, hosts_like(known), replicas};
}

std::vector<StepTimes> StepTimesSource::replicas() const {
  std::vector<StepTimes> made;
  for (int number = 0; number < count_; ++number) made.push_back(replica(number));
  return made;
}

}  // namespace stretto::command
