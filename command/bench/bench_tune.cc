#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "command/bench/timed_allreduce.h"
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
using Way = AllreduceChoice::Way;

constexpr std::array<std::uint64_t, 7> kSizes = {8, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

struct TuneCommand {
  Duration time = 20ms;
  int repeats = 5;
  std::string out;
  Output output;
};

void describe_options(CommandLine& line, TuneCommand& command) {
  line.heading("The measurement");
  line.option("--time", "TIME", "Spent on each way, number of ranks and size in each repetition. Default 20ms.",
              into(command.time, "20ms"));
  line.option("--repeats", "N", "Repetitions. Default 5.", into(command.repeats, 1, 10000, "5"));
  line.heading("Output");
  line.option("--out", "FILE", "Where the costs go, for STRETTO_TUNING.", writable_file_into(command.out));
  command.output.add_option(line);
  line.example("stretto bench tune --out tuning.txt", "Half a minute, on a machine that does nothing else.");
  line.example("STRETTO_TUNING=tuning.txt stretto bench allreduce --explain", "What then is chosen.");
  line.note(
      "Between the ranks of a host an allreduce goes one of two ways: exchange (each rank shows its chunks and sums "
      "all) or gather (each piece is summed once). Which is faster follows from a few costs, and so that all ranks "
      "choose the same, from nothing that is measured meanwhile. They are fitted to both ways with 2 ranks, a rank a "
      "core, two and four a core, by least squares of the relative errors. All ranks of a job have to use the same "
      "file.");
}

// One way to sum, with so many ranks.
struct Turn {
  Way way = Way::gather;
  int ranks = 0;
  bool registered = false;
};

std::vector<Turn> turns_on(int cores) {
  std::vector<int> ranks = {2, cores, 2 * cores, 4 * cores};
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<Turn> out;
  for (const int n : ranks) {
    for (const Way way : {Way::exchange, Way::gather}) {
      if (n < 2 || (way == Way::exchange && n > cores)) continue;  // never chosen
      for (const bool registered : {false, true}) out.push_back({way, n, registered});
    }
  }
  return out;
}

// The i-th turn is the i-th contender of the samples.
std::vector<Sample> measure(const std::vector<Turn>& turns, const TuneCommand& command) {
  std::vector<Sample> samples;
  Progress progress("tune", "turns", turns.size() * static_cast<std::size_t>(command.repeats));
  std::size_t done = 0;
  for (int repetition = 0; repetition < command.repeats; ++repetition) {
    for (std::size_t i = 0; i < turns.size(); ++i) {
      using Through = AllreduceOptions::Through;
      const double background = background_load(50ms);
      const AllreduceTiming timing{
          command.time,
          false,
          {turns[i].way == Way::exchange ? Through::exchange : Through::gather, turns[i].registered}};
      const std::vector<Reading> readings = measure_allreduce(turns[i].ranks, timing, kSizes).or_throw();
      for (const Reading& reading : readings) samples.push_back({i, repetition, background, reading});
      progress.update(++done);
    }
  }
  return samples;
}

std::vector<MeasuredCall> calls_of(const std::vector<Turn>& turns, const std::vector<Sample>& samples, int cores) {
  constexpr std::size_t kMicroseconds = 1;  // of a reading's values
  std::vector<MeasuredCall> out;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    for (const std::uint64_t bytes : kSizes) {
      const Figure figure = figure_of(samples, i, {turns[i].ranks, bytes}, kMicroseconds);
      out.push_back({turns[i].way, {bytes, turns[i].ranks, cores, turns[i].registered}, figure.value.estimate});
    }
  }
  return out;
}

double relative_error(const MeasuredCall& call, const AllreduceCosts& costs) {
  return predicted_us(call.way, call.task, costs) / call.microseconds - 1;
}

std::string table(const std::vector<MeasuredCall>& calls, const AllreduceCosts& costs) {
  Table out({"way", "buffers", "ranks", "size", "measured µs", "predicted µs", "error"});
  double sum = 0;
  for (const MeasuredCall& call : calls) {
    const double error = relative_error(call, costs);
    sum += std::abs(error);
    out.add({name_of(call.way), call.task.registered ? "registered" : "plain", std::to_string(call.task.ranks),
             to_bytes(call.task.bytes), significant(call.microseconds),
             significant(predicted_us(call.way, call.task, costs)), fmt::format("{:+.0f} %", 100 * error)});
  }
  return fmt::format("{}mean error {}\n", out.to_text(), percent(sum / static_cast<double>(calls.size()), 0));
}

// The quality of the choice: how much longer the chosen way takes than the faster of both, where both were measured.
std::string regret(const std::vector<MeasuredCall>& calls, const AllreduceCosts& costs) {
  int cases = 0;
  double worst = 1;
  double product = 1;
  for (const MeasuredCall& a : calls) {
    for (const MeasuredCall& b : calls) {
      const bool rivals = a.way == Way::exchange && b.way == Way::gather && a.task.ranks == b.task.ranks &&
                          a.task.bytes == b.task.bytes && a.task.registered == b.task.registered;
      if (!rivals) continue;
      const MeasuredCall& chosen = choose_allreduce(a.task, costs).way == a.way ? a : b;
      const double factor = chosen.microseconds / std::min(a.microseconds, b.microseconds);
      ++cases;
      worst = std::max(worst, factor);
      product *= factor;
    }
  }
  if (cases == 0) return "";
  return fmt::format("what is chosen takes {}× the time of the faster way, at worst {}×\n",
                     significant(std::pow(product, 1.0 / cases)), significant(worst));
}

std::string file_text(const AllreduceCosts& costs, const Machine& machine) {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  std::array<char, 16> date{};
  ::gmtime_r(&now, &day);
  std::strftime(date.data(), date.size(), "%Y-%m-%d", &day);
  return fmt::format("# stretto bench tune, {}: {}\n{}", date.data(), machine.to_text(), costs.to_text());
}

nlohmann::ordered_json to_json(const std::vector<MeasuredCall>& calls, const AllreduceCosts& costs,
                               const Machine& machine) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const MeasuredCall& call : calls) {
    rows.push_back({{"way", name_of(call.way)},
                    {"registered", call.task.registered},
                    {"ranks", call.task.ranks},
                    {"bytes", call.task.bytes},
                    {"microseconds", call.microseconds},
                    {"predicted_us", predicted_us(call.way, call.task, costs)}});
  }
  return {{"costs",
           {{"hand_off", costs.hand_off},
            {"turn", costs.turn},
            {"start", costs.start},
            {"sum_rate", costs.sum_rate},
            {"move_rate", costs.move_rate},
            {"cache", costs.cache},
            {"memory_rate", costs.memory_rate}}},
          {"rows", rows},
          {"machine", machine.to_json()}};
}

int run(const TuneCommand& command) {
  const Machine machine = this_machine();
  command.output.say(machine.to_text());
  const std::vector<Turn> turns = turns_on(machine.cores);
  const std::vector<Sample> samples = measure(turns, command);
  const std::vector<MeasuredCall> calls = calls_of(turns, samples, machine.cores);
  const AllreduceCosts costs = fit_costs(calls);
  const auto loaded = std::ranges::count_if(samples, is_loaded);
  command.output.say(table(calls, costs) + regret(calls, costs));
  if (loaded > 0) {
    command.output.say(
        fmt::format("{} of {} measurements were made while others loaded the machine\n", loaded, samples.size()));
  }
  const std::string text = file_text(costs, machine);
  command.output.say(text);
  if (!command.out.empty()) write_whole_file(command.out, text).or_throw();
  command.output.emit(to_json(calls, costs, machine));
  return kSuccess;
}

}  // namespace

Subcommand bench_tune_command() {
  return make_command({.name = "tune",
                       .summary = "What the choice of an allreduce's way knows about this machine: fits it anew.",
                       .introduction = "What an allreduce costs on this machine, for the choice of the way it goes."},
                      TuneCommand(), describe_options, run);
}

}  // namespace stretto::command
