#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "command/bench/rank_places.h"
#include "command/bench/timed_link.h"
#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

struct LinkCommand {
  RankPlaces places{"2"};
  std::string sizes = "4,64,1KiB,16KiB,256KiB,1MiB,4MiB,16MiB";
  Duration time = 200ms;
  Ways ways = Ways::one;
  bool sharing = false;
  Output output;
};

void describe_options(CommandLine& line, LinkCommand& command) {
  line.heading("The measurement");
  line.option("--sizes", "LIST", "Bytes of float32 in a message, two sizes at least. Default " + command.sizes + ".",
              into(command.sizes));
  line.option("--time", "TIME", "Spent on each size. Default 200ms.", into(command.time, "200ms"));
  command.places.describe_hosts(line);
  line.flag("--both-ways", "", "Two messages at the same time, one in each direction, as allreduces exchange them.",
            [&command](std::string_view, const std::string&) { command.ways = Ways::both; });
  line.flag("--sharing", "",
            "Instead: two ranks send messages to a third at the same time; how evenly they share its card.",
            [&command](std::string_view, const std::string&) { command.sharing = true; });
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto bench link", "Between two processes of this host.");
  line.example("mpirun -n 2 --host a,b stretto bench link", "Between two hosts.");
  line.example("stretto bench link --over hosts:2x1 --rate 1gbit", "Between two that this machine pretends to be.");
  line.example("mpirun -n 3 --host a,b,c stretto bench link --sharing --sizes 256KiB,1MiB,4MiB",
               "Two hosts that send to a third.");
  line.note(
      "A message goes from rank 0 to rank 1 and back; half of it, the median over all round trips, is a "
      "transfer; with --both-ways the time until both have come. The line is that of latency and bandwidth which comes "
      "closest in relative terms: put its bandwidth into the job of stretto "
      "predict. A link that is far off its line at some sizes is predicted as badly there.");
}

double off(const LinkLine& line, const TimedTransfer& transfer) {
  return line.seconds(transfer.bytes) / transfer.seconds - 1;
}

std::string to_table(const TimedLink& link, const LinkLine& line) {
  Table table({"message", "transfer, us", "MB/s", "line, us", "line is off"});
  for (const TimedTransfer& transfer : link.transfers) {
    table.add({to_bytes(static_cast<std::uint64_t>(transfer.bytes)), significant(1e6 * transfer.seconds),
               significant(1e-6 * transfer.bytes / transfer.seconds), significant(1e6 * line.seconds(transfer.bytes)),
               fmt::format("{:+.0f} %", 100 * off(line, transfer))});
  }
  return table.to_text();
}

nlohmann::ordered_json to_json(const TimedLink& link, const LinkLine& line) {
  nlohmann::ordered_json json{{"transport", link.transport},
                              {"latency", line.latency},
                              {"bandwidth", line.bandwidth},
                              {"rows", nlohmann::ordered_json::array()},
                              {"machine", this_machine().to_json()}};
  for (const TimedTransfer& transfer : link.transfers) {
    json["rows"].push_back(
        {{"bytes", transfer.bytes}, {"seconds", transfer.seconds}, {"line", line.seconds(transfer.bytes)}});
  }
  return json;
}

int run_sharing(const LinkCommand& command, std::span<const std::uint64_t> sizes, const NamespaceHosts* hosts) {
  const TimedSharing sharing = measure_sharing(sizes, command.time, hosts).or_throw();
  if (sharing.transfers.empty()) return kSuccess;  // rank 0 tells
  const Unevenness unevenness = fit_unevenness(sharing.transfers);
  Table table({"message", "the first, us", "both, us", "of"});
  for (const SharedSize& size : by_size(sharing.transfers)) {
    table.add({to_bytes(size.bytes), significant(1e6 * size.first), significant(1e6 * size.last),
               std::to_string(size.transfers)});
  }
  command.output.say(this_machine().to_text());
  command.output.say(table.to_text());
  command.output.say(fmt::format("{}: unevenness {}, and {} us apart however long they are", sharing.transport,
                                 significant(unevenness.of_weights), significant(1e6 * unevenness.grain)));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SharedTransfer& transfer : sharing.transfers) {
    rows.push_back({{"bytes", transfer.bytes}, {"first", transfer.first}, {"last", transfer.last}});
  }
  command.output.emit(nlohmann::ordered_json{{"transport", sharing.transport},
                                             {"unevenness", unevenness.of_weights},
                                             {"grain", unevenness.grain},
                                             {"rows", std::move(rows)},
                                             {"machine", this_machine().to_json()}});
  return kSuccess;
}

int run(const LinkCommand& command) {
  const std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  if (std::set(sizes.begin(), sizes.end()).size() < 2) {
    reject("--sizes", command.sizes, "expected two different sizes at least", "4,1MiB");
  }
  if (command.sharing && command.ways == Ways::both) {
    throw UsageError("--sharing is of two messages in one direction; expected it without --both-ways");
  }
  const int ranks = command.sharing ? 3 : 2;
  if (const int all = command.places.ranks().front(); !command.places.words().empty() && all != ranks) {
    throw UsageError(fmt::format("--over has {} ranks, and this measures {}: expected hosts:{}x1", all, ranks, ranks));
  }
  const auto hosts = command.places.make_hosts();
  if (command.sharing) return run_sharing(command, sizes, hosts.get());
  const TimedLink link = measure_link(sizes, command.time, command.ways, hosts.get()).or_throw();
  if (link.transfers.empty()) return kSuccess;  // rank 0 tells
  const LinkLine line = fit_line(link.transfers);
  const auto worst = std::ranges::max_element(
      link.transfers, {}, [&](const TimedTransfer& transfer) { return std::abs(off(line, transfer)); });
  command.output.say(this_machine().to_text());
  command.output.say(to_table(link, line));
  command.output.say(fmt::format("{}: latency {} us, bandwidth {} MB/s; off by at most {:.0f} %, at {}", link.transport,
                                 significant(1e6 * line.latency), significant(1e-6 * line.bandwidth),
                                 100 * std::abs(off(line, *worst)),
                                 to_bytes(static_cast<std::uint64_t>(worst->bytes))));
  command.output.emit(to_json(link, line));
  return kSuccess;
}

}  // namespace

Subcommand bench_link_command() {
  return make_command({.name = "link",
                       .summary = "Latency and bandwidth between two ranks.",
                       .introduction = "Measures how long messages take between two ranks, and fits latency and "
                                       "bandwidth to it."},
                      LinkCommand(), describe_options, run);
}

}  // namespace stretto::command
