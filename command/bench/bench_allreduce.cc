#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "command/bench/peers.h"
#include "command/bench/rank_places.h"
#include "command/bench/simulated_allreduce.h"
#include "command/bench/timed_allreduce.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/statistics/comparison.h"
#include "stretto/collective/allreduce/allreduce_choice.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

const std::vector<std::string> kWays = {"automatic", "messages", "exchange", "gather"};
const std::vector<std::string> kBuffers = {"plain", "registered"};

struct AllreduceCommand {
  RankPlaces places{"2,8"};
  std::string sizes = "8,1KiB,64KiB,512KiB,4MiB";
  std::string buffers = "plain";
  std::string through;
  int seats = 0;
  bool explain = false;
  bool predict = false;
  AllreduceTiming timing;
  ComparisonOptions comparison;
};

// One way to use ours.
struct Mode {
  std::string library;
  AllreduceOptions options;
};

constexpr const char* kPredicted = "stretto-predicted";

enum Column : std::size_t { kCalls, kMicroseconds, kBusBandwidth, kCallMedian, kCallP99 };

void describe_options(CommandLine& line, AllreduceCommand& command) {
  line.heading("The measurement");
  command.places.describe(line);
  line.option("--sizes", "LIST", "Bytes of float32 that are summed. Default " + command.sizes + ".",
              into(command.sizes));
  line.option("--buffers", "LIST",
              "Of ours: plain (default), the caller's own memory, or registered, what Allreduce::input() and result() "
              "give, without a copy: a library of its own, stretto-registered.",
              into(command.buffers, kBuffers));
  line.option("--through", "LIST",
              "How ours is done: automatic (default), messages, exchange, gather. Other than automatic is a library of "
              "its own, such as stretto-messages.",
              into(command.through, kWays));
  line.option("--seats", "N",
              "Ranks at a board, with a schedule between the boards' first ranks: a library of its own, such as "
              "stretto-seats-4. 1: the same as --through messages. Default: all ranks at one.",
              into(command.seats, 1, JobMemory::kMaxRanks, "4"));
  command.comparison.describe_measurement(line, peer_names());
  line.option("--time", "TIME", "Spent on each size in each repetition. Default 100ms.",
              into(command.timing.time, "100ms"));
  line.flag("--percentiles", "",
            "Times calls one by one, too, in a loop of their own: their median and 99th percentile.",
            [&command](std::string_view, const std::string&) { command.timing.each_call = true; });
  line.flag("--explain", "", "Says which way ours would take, how its ranks are seated, and why; measures nothing.",
            [&command](std::string_view, const std::string&) { command.explain = true; });
  line.flag("--predict", "",
            "With --over: beside what ours takes what its schedule would on links as `stretto bench link --both-ways` "
            "finds them, as a library of its own, stretto-predicted, measured anew in each repetition.",
            [&command](std::string_view, const std::string&) { command.predict = true; });
  command.comparison.describe_output(line);
  line.example("stretto bench allreduce --against openmpi,mpich,gloo", "Who is faster, by ranks and size.");
  line.example("stretto bench allreduce --ranks 2 --sizes 8 --repeats 20", "The latency between two processes.");
  line.example("stretto bench allreduce --load 2 --percentiles --against openmpi",
               "The same while two other programs want the cores: how much single calls vary.");
  line.example("stretto bench allreduce --buffers plain,registered --through automatic,messages",
               "What meeting in shared memory gains, and what not copying does.");
  line.example("stretto bench allreduce --ranks 8 --seats 4 --explain",
               "Who meets where, and what runs between two boards.");
  line.example("stretto bench allreduce --over hosts:4x1 --rate 1gbit --sizes 32MB --against gloo",
               "How full the links of four hosts are.");
  line.note(
      "A time is that of one call in a loop, by rank 0's clock. Bus bandwidth is 2 (P - 1)/P of the bytes over it.");
  line.note(ComparisonOptions::note());
}

// Bus bandwidth stands behind the two values that are printed first.
std::vector<Reading> with_bandwidth(std::vector<Reading> readings) {
  for (Reading& reading : readings) {
    reading.values.insert(reading.values.begin() + kBusBandwidth,
                          bus_bandwidth(reading.ranks, reading.bytes, reading.values[kMicroseconds]));
  }
  return readings;
}

std::vector<Mode> parse_modes(const AllreduceCommand& command) {
  using Through = AllreduceOptions::Through;
  static const std::map<std::string, Through> kThrough = {{"automatic", Through::automatic},
                                                          {"messages", Through::messages},
                                                          {"exchange", Through::exchange},
                                                          {"gather", Through::gather}};
  const std::string asked = command.through.empty() ? (command.seats == 1 ? "messages" : "automatic") : command.through;
  if (command.seats == 1 && asked != "messages") {
    reject("--through", asked, "expected messages with --seats 1; leave one of them out");
  }
  const std::string seats = command.seats > 1 ? fmt::format("-seats-{}", command.seats) : "";
  if (const int fewest = std::ranges::min(command.places.ranks()); command.seats > fewest) {
    reject("--seats", std::to_string(command.seats), fmt::format("expected at most {}, the fewest of --ranks", fewest));
  }
  std::vector<Mode> out;
  for (const std::string& through : parse_names("--through", asked, kWays)) {
    if (command.seats > 1 && through != "automatic" && through != "gather") {
      reject("--through", asked, fmt::format("expected automatic or gather with --seats {}", command.seats));
    }
    for (const std::string& buffers : parse_names("--buffers", command.buffers, kBuffers)) {
      const bool registered = buffers == "registered";
      out.push_back({fmt::format("{}{}{}{}", kOurs, through == "automatic" ? "" : "-" + through, seats,
                                 registered ? "-registered" : ""),
                     {.through = kThrough.at(through),
                      .registered = registered,
                      .seats = command.seats == 1 ? 0 : command.seats}});
    }
  }
  return out;
}

Comparison::Plan make_plan(const AllreduceCommand& command) {
  const std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  AllreduceTiming timing = command.timing;
  timing.hosts = command.places.make_hosts();
  const auto contender = [](const std::string& library, const auto& measure) {
    return Contender{library, "", [measure](int ranks) -> Result<std::vector<Reading>> {
                       auto readings = measure(ranks);
                       if (!readings) return readings.error();
                       return with_bandwidth(std::move(*readings));
                     }};
  };
  Comparison::Plan plan{"allreduce",
                        command.places.ranks(),
                        "",
                        {{"calls", "calls"}, {"microseconds", "µs"}, {"bus_gb_per_s", "GB/s"}},
                        {}};
  const std::vector<Peer> peers = parse_peers(command.comparison.against);
  plan.places = command.places.words(peers);
  for (const Mode& mode : parse_modes(command)) {
    AllreduceTiming ours = timing;
    ours.options = mode.options;
    plan.contenders.push_back(
        contender(mode.library, [ours, sizes](int ranks) { return measure_allreduce(ranks, ours, sizes); }));
  }
  if (timing.each_call) {
    plan.metrics.insert(plan.metrics.end(), {{"call_median_us", "median of calls, µs"}, {"call_p99_us", "p99, µs"}});
  }
  if (command.predict) {
    if (!timing.hosts) throw UsageError("--predict is of messages between hosts: expected --over, too");
    if (timing.each_call) throw UsageError("--predict knows no single calls: expected it without --percentiles");
    plan.contenders.push_back(
        contender(kPredicted, [timing, sizes](int ranks) { return predict_allreduce(ranks, timing, sizes); }));
  }
  for (const Peer& peer : peers) {
    plan.contenders.push_back(contender(peer.name, [timing, sizes, peer](int ranks) {
      // Warm-up calls come before the timed ones, and starting takes a while.
      const Duration limit = kPeerStart + (20 * timing.time + 30s) * static_cast<int>(sizes.size());
      const std::vector<std::string> arguments = {fmt::format("{}", seconds(timing.time)),
                                                  timing.each_call ? "1" : "0"};
      return measure_peer(peer, {"allreduce", ranks, arguments, limit, timing.hosts}, sizes, num_values(timing));
    }));
  }
  return plan;
}

// A row for each size, a column for each library, and the time of the best of the others over that of the first of ours
// does.
std::string side_by_side(const Comparison& comparison) {
  const std::vector<Contender>& contenders = comparison.plan().contenders;
  std::vector<std::string> headings = {"ranks", "size", contenders[0].library + " µs", "GB/s"};
  for (std::size_t i = 1; i < contenders.size(); ++i) headings.push_back(contenders[i].library + " µs");
  const bool others = !is_ours(contenders.back().library);
  if (others) headings.emplace_back("best of them / " + contenders[0].library);
  Table table(headings);
  for (const Comparison::Case& at : comparison.cases()) {
    const Figure ours = comparison.figure(0, at, kMicroseconds);
    std::vector<std::string> row = {std::to_string(at.ranks), to_bytes(at.bytes), ours.to_text(),
                                    significant(comparison.figure(0, at, kBusBandwidth).value.estimate)};
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; i < contenders.size(); ++i) {
      const Figure theirs = comparison.figure(i, at, kMicroseconds);
      row.push_back(theirs.to_text());
      if (theirs.repetitions > 0 && !is_ours(contenders[i].library)) best = std::min(best, theirs.value.estimate);
    }
    if (others) {
      const bool any = best < std::numeric_limits<double>::infinity();
      row.push_back(any ? significant(best / ours.value.estimate) + "×" : "–");
    }
    table.add(row);
  }
  return table.to_text();
}

// How far the predictions are from what ours took.
std::string errors_of_predictions(const Comparison& comparison) {
  const std::vector<Contender>& contenders = comparison.plan().contenders;
  const auto predicted = std::ranges::find(contenders, kPredicted, &Contender::library);
  if (predicted == contenders.end()) return {};
  const auto index = static_cast<std::size_t>(predicted - contenders.begin());
  std::vector<double> errors;
  for (const Comparison::Case& at : comparison.cases()) {
    const double ours = comparison.figure(0, at, kMicroseconds).value.estimate;
    errors.push_back(std::abs(comparison.figure(index, at, kMicroseconds).value.estimate / ours - 1));
  }
  return fmt::format("predictions are off by {} in the median of the sizes, by {} at most\n",
                     percent(median(errors), 1), percent(std::ranges::max(errors), 1));
}

// A line for each number of ranks, size and mode of ours.
void explain(const AllreduceCommand& command) {
  const std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  AllreduceTiming timing = command.timing;
  timing.hosts = command.places.make_hosts();
  for (const int ranks : command.places.ranks()) {
    std::vector<std::vector<std::string>> explanations;
    const std::vector<Mode> modes = parse_modes(command);
    for (const Mode& mode : modes) {
      timing.options = mode.options;
      explanations.push_back(explain_allreduce(ranks, timing, sizes).or_throw());
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::size_t m = 0; m < modes.size(); ++m) {
        command.comparison.output.say(fmt::format("{}: {}", modes[m].library, explanations[m][i]));
        rows.push_back({{"library", modes[m].library},
                        {"ranks", ranks},
                        {"bytes", sizes[i]},
                        {"explanation", explanations[m][i]}});
      }
    }
  }
  command.comparison.output.emit({{"rows", rows}, {"machine", this_machine().to_json()}});
}

int run(const AllreduceCommand& command) {
  (void)AllreduceCosts::from_environment();  // a tuning file that cannot be used is said before anything is measured
  if (command.explain) {
    explain(command);
    return kSuccess;
  }
  Comparison comparison(make_plan(command), command.comparison);
  comparison.run([&] {
    const std::string percentiles = command.timing.each_call ? comparison.table({kCallMedian, kCallP99}) : "";
    return fmt::format("{}{}{}{}", side_by_side(comparison), errors_of_predictions(comparison),
                       percentiles.empty() ? "" : "\n", percentiles);
  });
  return kSuccess;
}

}  // namespace

Subcommand bench_allreduce_command() {
  return make_command({.name = "allreduce",
                       .summary = "Latency and bandwidth of an allreduce, by ranks and size.",
                       .introduction = "How long one allreduce takes, by ranks and size."},
                      AllreduceCommand(), describe_options, run);
}

}  // namespace stretto::command
