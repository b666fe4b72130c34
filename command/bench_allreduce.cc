#include "command/bench_allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "command/comparison.h"
#include "command/exit_code.h"
#include "command/peers.h"
#include "command/table.h"
#include "command/timed_allreduce.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

struct AllreduceCommand {
  std::string ranks = "2,8";
  std::string sizes = "8,1KiB,64KiB,512KiB,4MiB";
  AllreduceTiming timing;
  ComparisonOptions comparison;
};

enum Column : std::size_t { kCalls, kMicroseconds, kBusBandwidth, kCallMedian, kCallP99 };

void describe_options(CommandLine& line, AllreduceCommand& command) {
  line.heading("The measurement");
  line.option("--ranks", "LIST", "How many processes. Default " + command.ranks + ".", into(command.ranks));
  line.option("--sizes", "LIST", "Bytes of float32 that are summed. Default " + command.sizes + ".",
              into(command.sizes));
  command.comparison.describe_measurement(line);
  line.option("--time", "TIME", "Spent on each size in each repetition. Default 100ms.",
              into(command.timing.time, "100ms"));
  line.flag("--percentiles", "",
            "Times calls one by one, too, in a loop of their own: their median and 99th percentile.",
            [&command](std::string_view, const std::string&) { command.timing.each_call = true; });
  command.comparison.describe_output(line);
  line.example("stretto bench allreduce --against openmpi,mpich,gloo", "Who is faster, by ranks and size.");
  line.example("stretto bench allreduce --ranks 2 --sizes 8 --repeats 20", "The latency between two processes.");
  line.example("stretto bench allreduce --load 2 --percentiles --against openmpi",
               "The same while two other programs want the cores: how much single calls vary.");
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

Comparison::Plan make_plan(const AllreduceCommand& command) {
  const std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  const AllreduceTiming timing = command.timing;
  const auto contender = [](const std::string& library, const auto& measure) {
    return Contender{library, "", [measure](int ranks) -> Result<std::vector<Reading>> {
                       auto readings = measure(ranks);
                       if (!readings) return readings.error();
                       return with_bandwidth(std::move(*readings));
                     }};
  };
  Comparison::Plan plan{
      "allreduce",
      parse_ranks(command.ranks, 1),
      "",
      {{"calls", "calls"}, {"microseconds", "µs"}, {"bus_gb_per_s", "GB/s"}},
      {contender(kOurs, [timing, sizes](int ranks) { return measure_allreduce(ranks, timing, sizes); })}};
  if (timing.each_call) {
    plan.metrics.insert(plan.metrics.end(), {{"call_median_us", "median of calls, µs"}, {"call_p99_us", "p99, µs"}});
  }
  for (const Peer& peer : parse_peers(command.comparison.against)) {
    plan.contenders.push_back(contender(peer.name, [timing, sizes, peer](int ranks) {
      // Warm-up calls come before what is timed, and starting takes a while.
      const Duration limit = 60s + (20 * timing.time + 30s) * static_cast<int>(sizes.size());
      const std::vector<std::string> arguments = {fmt::format("{}", seconds(timing.time)),
                                                  timing.each_call ? "1" : "0"};
      return measure_peer(peer, {"allreduce", ranks, arguments, limit}, sizes, num_values(timing));
    }));
  }
  return plan;
}

// A row for each size, a column for each library, and what the best of the others takes over what ours does.
std::string side_by_side(const Comparison& comparison) {
  const std::vector<Contender>& contenders = comparison.plan().contenders;
  std::vector<std::string> headings = {"ranks", "size", "stretto µs", "GB/s"};
  for (std::size_t i = 1; i < contenders.size(); ++i) headings.push_back(contenders[i].library + " µs");
  if (contenders.size() > 1) headings.emplace_back("best of them / stretto");
  Table table(headings);
  for (const Comparison::Case& at : comparison.cases()) {
    const Figure ours = comparison.figure(0, at, kMicroseconds);
    std::vector<std::string> row = {std::to_string(at.ranks), to_bytes(at.bytes), ours.to_text(),
                                    significant(comparison.figure(0, at, kBusBandwidth).value.estimate)};
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; i < contenders.size(); ++i) {
      const Figure theirs = comparison.figure(i, at, kMicroseconds);
      row.push_back(theirs.to_text());
      if (theirs.repetitions > 0) best = std::min(best, theirs.value.estimate);
    }
    if (contenders.size() > 1) {
      const bool any = best < std::numeric_limits<double>::infinity();
      row.push_back(any ? significant(best / ours.value.estimate) + "×" : "–");
    }
    table.add(row);
  }
  return table.to_text();
}

}  // namespace

double bus_bandwidth(int ranks, std::uint64_t bytes, double microseconds) {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / microseconds / 1e3;
}

int run_bench_allreduce(const Arguments& arguments) {
  AllreduceCommand command;
  CommandLine line("stretto bench allreduce", "How long one allreduce takes, by ranks and size.");
  describe_options(line, command);
  if (!line.parse(arguments)) {
    fmt::print("{}", line.help());
    return kSuccess;
  }
  Comparison comparison(make_plan(command), command.comparison);
  comparison.run([&] {
    const std::string percentiles = command.timing.each_call ? comparison.table({kCallMedian, kCallP99}) : "";
    return fmt::format("{}{}{}", side_by_side(comparison), percentiles.empty() ? "" : "\n", percentiles);
  });
  return kSuccess;
}

}  // namespace stretto::command
