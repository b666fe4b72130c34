#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command/bench/limits/limits.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/progress.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/statistics/comparison.h"
#include "stretto/observe/run_folder.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

struct LimitsCommand {
  std::string sizes = "32KiB,1MiB,64MiB";
  std::string sources = "2,8,32";
  int repeats = 5;
  Duration time = 50ms;
  std::string csv;
  Output output;
};

void describe_options(CommandLine& line, LimitsCommand& command) {
  line.heading("The measurement");
  line.option("--sizes", "LIST",
              "Bytes that are copied or summed at once: in caches and beyond. Default " + command.sizes + ".",
              into(command.sizes));
  line.option("--sources", "LIST",
              "So many vectors, which have that size together, are summed. Default " + command.sources + ".",
              into(command.sources));
  line.option("--repeats", "N", "Repetitions. Default 5.", into(command.repeats, 1, 10000, "5"));
  line.option("--time", "TIME", "Spent on each limit in each repetition. Default 50ms.", into(command.time, "50ms"));
  line.option("--against", "LIST", "Not here.", [](std::string_view option, const std::string& text) {
    reject(option, text, "expected nothing: limits are the machine's, no library's");
  });
  line.heading("Output");
  line.option("--csv", "FILE", "Every repetition, a line each.", writable_file_into(command.csv));
  command.output.add_option(line);
  line.example("stretto bench limits", "Half a minute.");
  line.note(
      "GB/s are 10^9 bytes of the source or sources a second, of all cores together. A hand-off is the time until what "
      "one process has written has been seen by another that waits for it: spinning on a core of its own, calling "
      "sched_yield on the same core, or sleeping on a futex, on the same core and on another. A fault is the first "
      "touch of a page. Numbers are median and 95 % interval over the repetitions; one made while other programs took "
      "more than a tenth of the machine is marked (*), and counts only where there is no other.");
}

std::vector<Limit> make_limits(const LimitsCommand& command) {
  std::vector<int> sources;
  for (const std::string& part : split_list(command.sources)) {
    sources.push_back(static_cast<int>(parse_integer("--sources", part, 1, 1024, "2,8")));
  }
  const std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  const Machine machine = this_machine();
  // Each core has memory to read and to write, and some is left for other programs.
  const std::uint64_t most = machine.memory_bytes / 4 / static_cast<std::uint64_t>(machine.cores);
  for (const std::uint64_t bytes : sizes) {
    if (bytes > most) {
      reject("--sizes", command.sizes, fmt::format("expected at most {} on this machine", to_bytes(most >> 20 << 20)),
             "32KiB,64MiB");
    }
    for (const int k : sources) {
      if (bytes % (sizeof(float) * static_cast<std::uint64_t>(k)) == 0) continue;
      reject("--sizes", command.sizes, fmt::format("expected whole float32 elements of each of {} sources", k),
             "32KiB,64MiB");
    }
  }
  std::vector<Limit> limits = memory_limits(sizes, sources);
  for (Limit& limit : handoff_limits()) limits.push_back(std::move(limit));
  return limits;
}

// The i-th sample is of limit i: limits take the place of contenders.
std::vector<Sample> measure(const std::vector<Limit>& limits, const LimitsCommand& command) {
  std::vector<Sample> samples;
  Progress progress("limits", "turns", limits.size() * static_cast<std::size_t>(command.repeats));
  for (int repetition = 0; repetition < command.repeats; ++repetition) {
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const double background = background_load(100ms);
      samples.push_back({i, repetition, background, {0, 0, {limits[i].measure(command.time)}}});
      progress.update(samples.size());
    }
  }
  return samples;
}

std::string table(const std::vector<Limit>& limits, const std::vector<Sample>& samples) {
  Table out({"limit", "cores", "size", "median", "unit"});
  for (std::size_t i = 0; i < limits.size(); ++i) {
    out.add({limits[i].name, std::to_string(limits[i].cores), to_bytes(limits[i].bytes),
             figure_of(samples, i, {0, 0}, 0).to_text(), limits[i].unit});
  }
  return out.to_text();
}

std::string csv(const std::vector<Limit>& limits, const std::vector<Sample>& samples) {
  std::string out = "limit,cores,bytes,repetition,value,unit,background,loaded\n";
  for (const Sample& sample : samples) {
    const Limit& limit = limits[sample.contender];
    out += fmt::format("{},{},{},{},{:.7g},{},{:.3f},{}\n", limit.name, limit.cores, limit.bytes, sample.repetition,
                       sample.reading.values[0], limit.unit, sample.background, is_loaded(sample) ? 1 : 0);
  }
  return out;
}

nlohmann::ordered_json to_json(const std::vector<Limit>& limits, const std::vector<Sample>& samples) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const Figure figure = figure_of(samples, i, {0, 0}, 0);
    rows.push_back({{"limit", limits[i].name},
                    {"cores", limits[i].cores},
                    {"bytes", limits[i].bytes},
                    {"unit", limits[i].unit},
                    {"median", figure.value.estimate},
                    {"low", figure.value.low},
                    {"high", figure.value.high},
                    {"repetitions", figure.repetitions},
                    {"loaded", figure.loaded}});
  }
  return {{"rows", rows}, {"machine", this_machine().to_json()}};
}

int run(const LimitsCommand& command) {
  const std::vector<Limit> limits = make_limits(command);
  command.output.say(this_machine().to_text());
  const std::vector<Sample> samples = measure(limits, command);
  command.output.say(table(limits, samples));
  if (!command.csv.empty()) write_whole_file(command.csv, csv(limits, samples)).or_throw();
  command.output.emit(to_json(limits, samples));
  return kSuccess;
}

}  // namespace

Subcommand bench_limits_command() {
  return make_command(
      {.name = "limits",
       .summary = "What this machine can do at most: copy, sum, hand over.",
       .introduction = "What this machine can do at most: copy, sum, and hand over from one process to another."},
      LimitsCommand(), describe_options, run);
}

}  // namespace stretto::command
