#include <fmt/format.h>

#include "command/bench/grid/timed_grid.h"
#include "command/bench/rank_places.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/statistics/comparison.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

const std::vector<std::string> kElasticRules = {"paper", "carry"};
constexpr int kMostInFlight = 64;

struct GridBenchCommand {
  RankPlaces places{"4"};
  std::string floats = "80000,8000000";
  std::string rules = "paper,carry";
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
  line.option("--pace", "TIME",
              "With training: a node sleeps so long between two exchanges, as one whose accelerator computes. Default: "
              "raw, as fast as it can.",
              into(command.timing.pace, "100ms"));
  line.option("--time", "TIME", "Of each measurement. Default 2s.", into(command.timing.time, "2s"));
  command.comparison.describe_measurement(line, {});
  command.comparison.describe_output(line);
  line.example("stretto bench grid --over hosts:4x1 --rate 1gbit", "2 × 2 nodes over links of 1 Gbit/s: a minute.");
  line.example("stretto bench grid --over hosts:4x1 --rate 1gbit --floats 8000000 --pace 180ms",
               "The same with training, a round in three steps.");
  line.note(
      "Rates are bytes a second each way a node, in the mean. \"wire\" is what plain messages between the same nodes "
      "reach, all at once, before and behind. The roofline is the paper's (Peng, UCB/EECS-2018-77, section 4.2): a "
      "round of p nodes adds (p - 1)N/p numbers for 4(p - 1) 4N/p bytes, both ways together, so that a wire of B "
      "bytes a second each way lets a node make 2B/16 additions a second. Here all lines of a node are counted "
      "together; the paper takes each round by itself, while that of the other line has half of the wire. "
      "\"computing\" "
      "is the share of the time in steps: what is left goes into taking means and publishing.");
  line.note(ComparisonOptions::note());
}

Comparison::Plan make_grid_plan(const GridBenchCommand& command) {
  std::vector<std::uint64_t> models;
  for (const std::string& floats : split_list(command.floats)) {
    models.push_back(static_cast<std::uint64_t>(parse_integer("--floats", floats, 1, 1'000'000'000, "80000,8000000")));
  }
  Comparison::Plan plan{"grid", command.places.ranks(), "rule", {}, {}, command.places.words()};
  plan.metrics = {{"wire_mb_per_s", "wire, MB/s"},       {"mb_per_s", "grid, MB/s"},
                  {"of_wire_percent", "of the wire, %"}, {"of_roofline_percent", "of the roofline, %"},
                  {"rounds_per_s", "rounds/s"},          {"computing_percent", "computing, %"},
                  {"missing_percent", "missing, %"}};
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
    const std::string how = timing.pace > Duration(0) ? "steps of " + to_text(timing.pace) : "raw";
    plan.contenders.push_back({kOurs, rule + ", " + how, [timing, models](int nodes) -> Result<std::vector<Reading>> {
                                 std::vector<Reading> out;
                                 for (const std::uint64_t model : models) {
                                   auto reading = measure_grid(nodes, model, timing);
                                   if (!reading) return reading.error();
                                   out.push_back(std::move(*reading));
                                 }
                                 return out;
                               }});
  }
  return plan;
}

int run_grid_bench(const GridBenchCommand& command) {
  Comparison comparison(make_grid_plan(command), command.comparison);
  comparison.run([&] {
    return comparison.table(
        {kWireRate, kGridRate, kWireShare, kRooflineShare, kGridRounds, kGridComputing, kGridMissing});
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
