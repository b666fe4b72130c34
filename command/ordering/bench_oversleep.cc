#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/ordering/ordering_commands.h"
#include "command/ordering/timed_oversleep.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr int kQuantiles = 101;

struct OversleepCommand {
  std::string threads = "0,1,2,4";
  OversleepExperiment experiment;
  Output output;
};

void describe_options(CommandLine& line, OversleepCommand& command) {
  line.heading("The measurement");
  line.option("--threads", "LIST", "How many threads compute on the same core. Default " + command.threads + ".",
              into(command.threads));
  line.option("--sleep", "TIME", "What the thread asks for, and spins between. Default 5ms.",
              into(command.experiment.asked, "5ms"));
  line.option("--sleeps", "N", "Of each. Default 200.", into(command.experiment.sleeps, 1, 1'000'000, "200"));
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto bench oversleep", "Half a minute.");
  line.note(
      "A thread asks to wake after --sleep; how much later it runs is what it oversleeps. All threads stay on one "
      "core. "
      "The thread does nothing else, or keeps the core busy for as long between two sleeps, as one that spins while it "
      "waits for others. \"slice\" is the kernel's, \"throttled\" what the control group's quota has stopped "
      "meanwhile; "
      "– where the kernel does not say.");
}

std::vector<double> quantiles_of(const std::vector<double>& values) {
  std::vector<double> out;
  for (int i = 0; i < kQuantiles; ++i) out.push_back(quantile(values, i / static_cast<double>(kQuantiles - 1)));
  return out;
}

Json number_or_null(const std::optional<std::uint64_t>& number) {
  return number ? Json(*number) : Json();
}

std::string number_or_dash(const std::optional<std::uint64_t>& number) {
  return number ? std::to_string(*number) : "–";
}

int run(const OversleepCommand& command) {
  if (command.experiment.asked == Duration(0)) {
    throw UsageError("--sleep 0: expected a time that the thread sleeps, such as 5ms");
  }
  std::vector<int> beside;
  for (const std::string& number : split_list(command.threads)) {
    beside.push_back(static_cast<int>(parse_integer("--threads", number, 0, 1000, "0,1,2,4")));
  }
  const Machine machine = this_machine();
  command.output.say(machine.to_text());
  const CoreSharing before = core_sharing();
  Table table({"threads beside", "between", "p50, ms", "p90", "p99", "max", "throttled, µs"});
  Json rows = Json::array();
  for (const int threads : beside) {
    for (const bool spins : {false, true}) {
      OversleepExperiment experiment = command.experiment;
      experiment.beside = threads;
      experiment.spins = spins;
      const CoreSharing then = core_sharing();
      const Oversleeps measured = measure_oversleep(experiment);
      const CoreSharing meanwhile = core_sharing().since(then);
      const auto ms = [&](double p) { return significant(1e3 * quantile(measured.seconds, p)); };
      table.add({std::to_string(threads), spins ? "spins" : "sleeps", ms(0.5), ms(0.9), ms(0.99), ms(1),
                 number_or_dash(meanwhile.throttled_microseconds)});
      rows.push_back({{"threads", threads},
                      {"spins", spins},
                      {"sleeps", experiment.sleeps},
                      {"quantiles_seconds", quantiles_of(measured.seconds)},
                      {"processor_seconds", measured.processor}});
    }
  }
  const CoreSharing after = core_sharing();
  command.output.say(table.to_text());
  command.output.say(
      fmt::format("slice: {}; periods throttled meanwhile: {}",
                  before.slice_ns ? fmt::format("{:.1f} ms", 1e-6 * static_cast<double>(*before.slice_ns)) : "–",
                  number_or_dash(after.since(before).throttled_periods)));
  command.output.emit({{"asked_seconds", seconds(command.experiment.asked)},
                       {"rows", rows},
                       {"slice_ns", number_or_null(before.slice_ns)},
                       {"throttled_periods_before", number_or_null(before.throttled_periods)},
                       {"throttled_periods_after", number_or_null(after.throttled_periods)},
                       {"machine", machine.to_json()}});
  return kSuccess;
}

}  // namespace

Subcommand bench_oversleep_command() {
  return make_command({.name = "oversleep",
                       .summary = "How much later than it asked a thread wakes, beside others on its core.",
                       .introduction = "Measures how much later than it has asked for a thread wakes, while others "
                                       "compute on its core."},
                      OversleepCommand(), describe_options, run);
}

}  // namespace stretto::command
