#include <fmt/format.h>

#include <cmath>

#include "command/bench/grid/timed_grid.h"
#include "command/bench/rank_places.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/table.h"
#include "command/statistics/comparison.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

const std::vector<std::string> kElasticRules = {"paper", "carry"};
const std::vector<std::string> kCompressions = {"none", "zeros", "int8"};
constexpr int kMostInFlight = 64;

struct GridBenchCommand {
  RankPlaces places{"4"};
  std::string floats = "80000,8000000";
  std::string rules = "paper,carry";
  std::string compressions = "none";
  int in_flight = 4;
  GridTiming timing;
  ComparisonOptions comparison{.repeats = 3};
};

void describe_grid_options(CommandLine& line, GridBenchCommand& command) {
  line.heading("The measurement");
  command.places.describe(line);
  line.option("--floats", "LIST", "Numbers of float32 in a model. Default " + command.floats + ", as in the paper.",
              into(command.floats));
  line.option("--rows", "N", "Of the grid; 1: one line of all. Default: about as many as columns.",
              into(command.timing.options.grid.rows, 1, JobMemory::kMaxRanks, "2"));
  line.option("--dimensions", "N", "Of the grid. Default 2.", into(command.timing.options.grid.dimensions, 1, 10, "2"));
  line.option("--elastic-rule", "LIST", "How models move: paper, carry (stretto train easgd-grid). Default both.",
              into(command.rules, kElasticRules));
  line.option("--rounds-in-flight", "N",
              "With the rule paper: rounds of a line under way before the oldest is ended as it is. Default 4.",
              into(command.in_flight, 1, kMostInFlight, "4"));
  line.option("--compression", "LIST",
              "How slices and means are sent: none, zeros, int8 (stretto train easgd-grid). Default none. With several "
              "each is compared with the first.",
              into(command.compressions, kCompressions));
  line.option("--zeros", "SHARE", "Of the model's numbers, that are 0 on all nodes. Default 0.",
              into(command.timing.zeros, 0, 1, "0.9"));
  line.option("--pace", "TIME",
              "With training: a node sleeps so long between two exchanges, as one whose accelerator computes. Default: "
              "raw, as fast as it can.",
              into(command.timing.pace, "100ms"));
  line.flag("--on-core", "", "With --pace: it takes so much of a core's time in place of sleeping.",
            [&command](std::string_view, const std::string&) { command.timing.on_core = true; });
  line.option("--time", "TIME", "Of each measurement. Default 2s.", into(command.timing.time, "2s"));
  command.comparison.describe_measurement(line, {});
  command.comparison.describe_output(line);
  line.example("stretto bench grid --over hosts:4x1 --rate 1gbit", "2 × 2 nodes over links of 1 Gbit/s: a minute.");
  line.example("stretto bench grid --over hosts:4x1 --rate 1gbit --floats 8000000 --pace 180ms",
               "The same with training, a round in three steps.");
  line.example("stretto bench grid --elastic-rule carry --pace 100ms --compression none,zeros --zeros 0.9 --repeats 20",
               "What leaving zeros out costs a step, or gains.");
  line.note(
      "Rates are bytes a second each way a node, in the mean. \"wire\" is what plain messages between the same nodes "
      "reach, all at once, before and behind. The roofline is the paper's (Peng, UCB/EECS-2018-77, section 4.2): a "
      "round of p nodes adds (p - 1)N/p numbers for 4(p - 1) 4N/p bytes, both ways together, so that a wire of B "
      "bytes a second each way lets a node make 2B/16 additions a second. Here all lines of a node are counted "
      "together; the paper takes each round by itself, while that of the other line has half of the wire. "
      "\"computing\" "
      "is the share of the time in steps: what is left goes into taking means and publishing. A ratio is of two that "
      "were measured one right after the other, the median and its 95 % interval.");
  line.note(ComparisonOptions::note());
}

std::string mode_of(const std::string& rule, const std::string& compression, const GridTiming& timing) {
  const std::string how = timing.pace > Duration(0) ? "steps of " + to_text(timing.pace) : "raw";
  return rule + ", " + how + (compression == "none" ? "" : ", " + compression);
}

Comparison::Plan make_grid_plan(const GridBenchCommand& command) {
  std::vector<std::uint64_t> models;
  for (const std::string& floats : split_list(command.floats)) {
    models.push_back(static_cast<std::uint64_t>(parse_integer("--floats", floats, 1, 1'000'000'000, "80000,8000000")));
  }
  Comparison::Plan plan{"grid", command.places.ranks(), "rule", {}, {}, command.places.words()};
  plan.metrics = {{"wire_mb_per_s", "wire, MB/s"},
                  {"mb_per_s", "grid, MB/s"},
                  {"of_wire_percent", "of the wire, %"},
                  {"of_roofline_percent", "of the roofline, %"},
                  {"rounds_per_s", "rounds/s"},
                  {"computing_percent", "computing, %"},
                  {"missing_percent", "missing, %"},
                  {"step_ms", "ms a step"},
                  {"step_processor_ms", "processor ms a step"},
                  {"mb_per_round", "MB a round"}};
  for (const int nodes : plan.ranks) {
    const GridLayout layout(nodes, command.timing.options.grid);
    for (const std::uint64_t model : models) layout.require_elements(model);
  }
  GridTiming timing = command.timing;
  timing.hosts = command.places.make_hosts();
  for (const std::string& rule : parse_names("--elastic-rule", command.rules, kElasticRules)) {
    const bool paper = rule == "paper";
    timing.options.line.update = paper ? ElasticUpdate::paper : ElasticUpdate::carry;
    timing.options.line.rounds_in_flight = paper ? command.in_flight : 1;
    for (const std::string& compression : parse_names("--compression", command.compressions, kCompressions)) {
      timing.options.line.compression = compression == "zeros"  ? Compression::zeros
                                        : compression == "int8" ? Compression::int8
                                                                : Compression::none;
      plan.contenders.push_back(
          {kOurs, mode_of(rule, compression, timing), [timing, models](int nodes) -> Result<std::vector<Reading>> {
             std::vector<Reading> out;
             for (const std::uint64_t model : models) {
               auto reading = measure_grid(nodes, model, timing);
               if (!reading) return reading.error();
               out.push_back(std::move(*reading));
             }
             return out;
           }});
    }
  }
  return plan;
}

/// Of each rule's compressions beside its first one.
std::string ratios_of(const Comparison& comparison, std::size_t compressions) {
  if (compressions == 1) return {};
  Table table({"over the first of the rule", "size", "a step", "processors a step", "bytes a round"});
  const auto words = [](const Interval& ratio) {
    return std::isnan(ratio.estimate) ? "–"
                                      : fmt::format("{:.3f} [{:.3f}, {:.3f}]", ratio.estimate, ratio.low, ratio.high);
  };
  for (const Comparison::Case& at : comparison.cases()) {
    for (std::size_t i = 0; i < comparison.plan().contenders.size(); ++i) {
      const std::size_t first = i - i % compressions;
      if (i == first) continue;
      table.add(
          {comparison.plan().contenders[i].mode, to_bytes(at.bytes), words(comparison.ratio(i, first, at, kGridStep)),
           words(comparison.ratio(i, first, at, kStepProcessor)), words(comparison.ratio(i, first, at, kRoundBytes))});
    }
  }
  return "\n" + table.to_text();
}

int run_grid_bench(const GridBenchCommand& command) {
  Comparison comparison(make_grid_plan(command), command.comparison);
  comparison.run([&] {
    return comparison.table({kWireRate, kGridRate, kWireShare, kRooflineShare, kGridRounds, kGridComputing,
                             kGridMissing, kGridStep, kStepProcessor, kRoundBytes}) +
           ratios_of(comparison, split_list(command.compressions).size());
  });
  return kSuccess;
}

}  // namespace

Subcommand bench_grid_command() {
  return make_command({.name = "grid",
                       .summary = "How full the lines of an elastic grid keep the wire.",
                       .introduction = "How many bytes the nodes of an elastic grid exchange beside what their links "
                                       "carry, raw and with training."},
                      GridBenchCommand(), describe_grid_options, run_grid_bench);
}

}  // namespace stretto::command
