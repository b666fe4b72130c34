#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <span>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/schedule/mixing.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/collective/groups/groups.h"
#include "stretto/collective/schedules/plain_schedules.h"
#include "stretto/collective/schedules/round_schedules.h"
#include "stretto/observe/whole_file.h"
#include "stretto/schedule/export.h"
#include "stretto/schedule/print.h"
#include "stretto/schedule/validate.h"

namespace stretto::command {

namespace {

struct ScheduleCommand {
  std::string collective;
  int ranks = 4;
  std::uint64_t count = 1024;
  std::string type = "float32";
  std::string op = "sum";
  std::string order;  // empty: the collective's default
  std::string algorithm;
  int root = 0;
  std::string group;  // empty: default_group_size()
  std::uint64_t round = 0;
  bool mixing = false;
  std::string format = "text";
  int initiator = 0;
  std::string out;
  int rank = -1;                   // −1: all
  std::vector<std::string> given;  // options that not every collective and format has
};

struct Scope {
  std::string_view option;
  std::vector<std::string_view> of;  // collectives
};

const std::vector<Scope> kScopes = {{"--count", {"allreduce", "partial", "broadcast", "allgather", "group"}},
                                    {"--type", {"allreduce", "partial", "broadcast", "allgather", "group"}},
                                    {"--op", {"allreduce", "partial", "group"}},
                                    {"--order", {"allreduce", "partial", "group"}},
                                    {"--algorithm", {"allreduce", "group"}},
                                    {"--root", {"broadcast"}},
                                    {"--group", {"group"}},
                                    {"--round", {"group"}},
                                    {"--mixing", {"group"}}};

// Beside --mixing.
const std::vector<std::string_view> kOfMixing = {"--mixing", "--ranks", "--group", "--order"};
constexpr int kMostRanksOfTable = 64;
constexpr int kMostRanksOfMixing = 256;

const std::map<std::string, DataType> kTypes = {{"float32", DataType::float32},   {"float64", DataType::float64},
                                                {"int32", DataType::int32},       {"int64", DataType::int64},
                                                {"bfloat16", DataType::bfloat16}, {"float16", DataType::float16}};
const std::map<std::string, ReduceOp> kOps = {
    {"sum", ReduceOp::sum}, {"min", ReduceOp::min}, {"max", ReduceOp::max}, {"bit_and", ReduceOp::bit_and}};
const std::map<std::string, AllreduceAlgorithm> kAlgorithms = {
    {"recursive-doubling", AllreduceAlgorithm::recursive_doubling},
    {"halving-doubling", AllreduceAlgorithm::halving_doubling},
    {"direct", AllreduceAlgorithm::direct}};

template <class T>
std::vector<std::string> names(const std::map<std::string, T>& table) {
  std::vector<std::string> out;
  for (const auto& [name, value] : table) out.push_back(name);
  return out;
}

Setter noted(ScheduleCommand& command, Setter set) {
  return {set.known(), [&command, set](std::string_view option, const std::string& text) {
            set(option, text);
            command.given.emplace_back(option);
          }};
}

bool was_given(const ScheduleCommand& command, std::string_view option) {
  return std::ranges::find(command.given, option) != command.given.end();
}

/// Whether what is printed is for another simulator: all ranks, in a round that one of them starts.
bool is_export(const ScheduleCommand& command) {
  return command.format == "goal" || command.format == "chakra";
}

void require_effect(const ScheduleCommand& command) {
  for (const Scope& scope : kScopes) {
    if (!was_given(command, scope.option) || std::ranges::find(scope.of, command.collective) != scope.of.end())
      continue;
    throw UsageError(fmt::format("{} has no effect with {}: leave it out", scope.option, command.collective));
  }
  for (const std::string& option : command.given) {
    if (!command.mixing || std::ranges::find(kOfMixing, option) != kOfMixing.end()) continue;
    throw UsageError(fmt::format("{} has no effect with --mixing, which prints no schedule: leave it out", option));
  }
  if (command.ranks == 1 && was_given(command, "--group")) {
    throw UsageError("--group has no effect with --ranks 1: leave it out");
  }
  if (command.mixing && was_given(command, "--group") && !was_given(command, "--ranks")) {
    throw UsageError("--group has no effect with --mixing unless --ranks says of how many: add --ranks 64");
  }
  if (command.collective != "group" && was_given(command, "--algorithm") && was_given(command, "--order")) {
    throw UsageError("--order has no effect with --algorithm, which it would choose: leave one of them out");
  }
  if (was_given(command, "--initiator") && !is_export(command)) {
    throw UsageError("--initiator has no effect without --format goal or chakra: leave it out");
  }
  if (was_given(command, "--out") && command.format != "chakra") {
    throw UsageError(
        "--out has no effect without --format chakra, for the others print to standard output: leave it out");
  }
  if (command.format == "chakra" && command.out.empty()) {
    throw UsageError(fmt::format("--format chakra writes a file for each rank: add --out {0}, for {0}.0.et and so on",
                                 command.collective));
  }
}

void describe_options(CommandLine& line, ScheduleCommand& command) {
  constexpr int kMost = 4096;
  line.positional("COLLECTIVE", CommandLine::Presence::required,
                  "which one: allreduce, partial (the partial allreduce), group (an allreduce within each group of a "
                  "round), broadcast, barrier or allgather",
                  one_of(command.collective, {"allreduce", "partial", "group", "broadcast", "barrier", "allgather"}));
  line.heading("The collective");
  line.option("--ranks", "N", "How many ranks take part; any number. Default 4.",
              noted(command, into(command.ranks, 1, kMost, "4")));
  line.option("--count", "N", "Elements of the bucket. Default 1024. Large buckets are reduced by another algorithm.",
              noted(command, into(command.count, 1, "1024")));
  line.option("--type", "TYPE", fmt::format("{}. Default float32.", join(names(kTypes))),
              noted(command, one_of(command.type, names(kTypes))));
  line.option("--op", "OP", "sum (default), min, max or bit_and.", noted(command, one_of(command.op, names(kOps))));
  line.option(
      "--order", "ORDER",
      "fixed (default): one tree, whatever the timing, so that results repeat to the bit. arrival: what comes "
      "first is added first, in large buckets; faster when ranks come at different times. Of a group, which "
      "ranks are together: dynamic (default): others in each round; fixed: those of round 0 for ever. Not --ordering, "
      "the order of a step's collectives: `stretto schedule --ordering topo WORKLOAD`, as `stretto schedule plan "
      "WORKLOAD`, prints that.",
      noted(command, one_of(command.order, {"fixed", "arrival", "dynamic"})));
  line.option(
      "--algorithm", "NAME",
      "allreduce and group: recursive-doubling (few messages: for small buckets), halving-doubling (few bytes: for "
      "large ones) or direct. Default: what --count and --order lead to.",
      noted(command, one_of(command.algorithm, names(kAlgorithms))));
  line.option("--root", "R", "broadcast only: the rank that has the data. Default 0.",
              noted(command, into(command.root, 0, kMost - 1, "0")));
  line.option("--group", "S",
              "group only: how many ranks average with each other, from 2 to all. Larger groups agree in fewer rounds "
              "and cost more. Default: the smallest divisor of --ranks from its square root to twice that, where there "
              "is one.",
              noted(command, into(command.group)));
  line.option("--round", "R", "group only: the round, which decides who is in a group with whom. Default 0.",
              noted(command, into(command.round, 0, "1")));
  line.heading("Printing");
  line.flag("--mixing", "",
            "group only: in place of a schedule, after how many rounds what each rank has had has reached every rank, "
            "for 2 to 64 ranks and every group size. With --ranks: for so many, and how far the ranks are from their "
            "mean after each round.",
            noted(command, [&command](std::string_view, const std::string&) { command.mixing = true; }));
  line.option(
      "--format", "FORMAT",
      "text (default): one line an operation. dot: for Graphviz. goal: for LogGOPSim. chakra: execution traces "
      "of MLCommons, for ASTRA-sim. The last two know only \"all predecessors\", so they have the schedule with "
      "its activation resolved.",
      noted(command, one_of(command.format, {"text", "dot", "goal", "chakra"})));
  line.option("--out", "NAME", "chakra only: writes NAME.0.et, NAME.1.et, …, a file for each rank.",
              noted(command, into(command.out)));
  line.option("--initiator", "R", "goal and chakra only: the rank that starts the round. Default 0.",
              noted(command, into(command.initiator, 0, kMost - 1, "0")));
  line.option("--rank", "R", "Only this rank's schedule (text and dot). Default: all ranks.",
              noted(command, into(command.rank, 0, kMost - 1, "0")));
  line.example("stretto schedule partial --ranks 4 --rank 0",
               "What one rank does in a round of the partial allreduce.");
  line.example("stretto schedule allreduce --ranks 8 --format dot | dot -Tsvg > allreduce.svg", "A picture of it.");
  line.example("stretto schedule partial --ranks 32 --format goal --initiator 3 > solo.goal",
               "A solo round that rank 3 starts, to be simulated by LogGOPSim.");
  line.example("stretto schedule allreduce --ranks 8 --count 1000000 --format chakra --out allreduce",
               "The files allreduce.0.et to allreduce.7.et, to be simulated by ASTRA-sim.");
  line.example("stretto schedule group --ranks 8 --group 4 --round 1",
               "Which ranks average with each other in round 1, and what each does for it.");
  line.example("stretto schedule group --mixing --ranks 60", "How fast groups of 60 ranks agree, by their size.");
}

void require_below_ranks(std::string_view option, int value, int ranks) {
  if (value < ranks) return;
  reject(option, std::to_string(value), fmt::format("expected a rank from 0 to {}, for there are {}", ranks - 1, ranks),
         "0");
}

void require_order(const ScheduleCommand& command) {
  if (command.collective == "group" && command.order == "arrival") {
    reject("--order", command.order, "expected dynamic or fixed for group", "dynamic");
  }
  if (command.collective != "group" && command.order == "dynamic") {
    reject("--order", command.order, fmt::format("expected fixed or arrival for {}", command.collective), "fixed");
  }
}

Groups groups_of(const ScheduleCommand& command) {
  int size = default_group_size(command.ranks);
  if (!command.group.empty()) {
    size = static_cast<int>(parse_integer("--group", command.group, 2, command.ranks, std::to_string(size)));
  }
  return {command.ranks, size, command.order == "fixed" ? GroupOrder::fixed : GroupOrder::dynamic};
}

std::string mixing(const ScheduleCommand& command) {
  const GroupOrder order = command.order == "fixed" ? GroupOrder::fixed : GroupOrder::dynamic;
  if (!was_given(command, "--ranks")) return mixing_table(2, kMostRanksOfTable, order);
  if (command.ranks < 2 || command.ranks > kMostRanksOfMixing) {
    reject("--ranks", std::to_string(command.ranks),
           fmt::format("expected a number from 2 to {} with --mixing", kMostRanksOfMixing), "64");
  }
  return mixing_table(command.ranks, command.ranks, order) + "\n" + distance_table(groups_of(command));
}

/// "round 1 of 8 ranks, in groups of 4 at most: {0,1,4,5} {2,3,6,7}"
std::string groups_in_words(const ScheduleCommand& command) {
  const Groups groups = groups_of(command);
  std::string out =
      fmt::format("round {} of {} ranks, in groups of {} at most:", command.round, command.ranks, groups.group_size());
  for (const auto& group : groups.all(command.round)) {
    std::string members;
    for (const int rank : group) members += fmt::format("{}{}", members.empty() ? "" : ",", rank);
    out += fmt::format(" {{{}}}", members);
  }
  return out + "\n\n";
}

Schedule schedule_of(const ScheduleCommand& command, int rank) {
  const DataType type = kTypes.at(command.type);
  const ReduceOp op = kOps.at(command.op);
  const SumOrder order = command.order == "arrival" ? SumOrder::arrival : SumOrder::fixed;
  const BucketSpec bucket{type, command.count};
  if (command.collective == "broadcast") {
    return broadcast_schedule(rank, command.ranks, command.root, type, command.count);
  }
  if (command.collective == "barrier") return barrier_schedule(rank, command.ranks);
  if (command.collective == "allgather") return allgather_schedule(rank, command.ranks, type, command.count);
  if (command.collective == "partial") {
    return partial_allreduce_schedule(rank, command.ranks, std::span(&bucket, 1), op, order);
  }
  const AllreduceAlgorithm algorithm =
      command.algorithm.empty() ? algorithm_for(bucket, order) : kAlgorithms.at(command.algorithm);
  if (command.collective == "group") {
    return group_allreduce_schedule(rank, groups_of(command), command.round, type, command.count, op, algorithm);
  }
  return allreduce_schedule(rank, command.ranks, type, command.count, op, algorithm);
}

/// Returns a line for standard output.
std::string write_chakra(const std::string& name, const std::vector<std::vector<ExportNode>>& ranks) {
  require_writable_file("--out", chakra_file(name, 0));
  std::size_t operations = 0, messages = 0;
  int rank = 0;
  for (const std::vector<ExportNode>& nodes : ranks) {
    write_whole_file(chakra_file(name, rank), chakra_of_rank(rank, nodes)).or_throw();
    ++rank;
    operations += nodes.size();
    messages += static_cast<std::size_t>(std::ranges::count(nodes, ExportNode::Kind::send, &ExportNode::kind));
  }
  const std::string last = rank == 1 ? "" : " to " + chakra_file(name, rank - 1);
  return fmt::format("{}{}: {} operations, {} messages\n", chakra_file(name, 0), last, operations, messages);
}

int run(const ScheduleCommand& command) {
  require_effect(command);
  require_order(command);
  if (command.mixing) {
    print_to(stdout, mixing(command));
    return kSuccess;
  }
  require_below_ranks("--root", command.root, command.ranks);
  require_below_ranks("--initiator", command.initiator, command.ranks);
  require_below_ranks("--rank", command.rank, command.ranks);
  if (command.rank >= 0 && is_export(command)) {
    throw UsageError(fmt::format("--rank: --format {} has all ranks, for a message needs both ends; leave --rank out",
                                 command.format));
  }

  std::vector<Schedule> schedules;
  for (int rank = 0; rank < command.ranks; ++rank) schedules.push_back(schedule_of(command, rank));
  validate(schedules);
  const auto chosen = command.rank < 0
                          ? std::span<const Schedule>(schedules)
                          : std::span<const Schedule>(&schedules[static_cast<std::size_t>(command.rank)], 1);
  std::string out;
  if (command.format == "chakra") {
    out = write_chakra(command.out, export_of(schedules, command.initiator));
  } else if (command.format == "goal") {
    out = to_goal(schedules, command.initiator);
  } else if (command.format == "dot") {
    out = to_dot(chosen);
  } else {
    if (command.collective == "group") out = groups_in_words(command);
    for (const Schedule& schedule : chosen) out += to_text(schedule) + (&schedule == &chosen.back() ? "" : "\n");
  }
  print_to(stdout, out);
  return kSuccess;
}

}  // namespace

Subcommand schedule_command() {
  return make_command(
      {.name = "schedule",
       .summary = "Prints the operations of a collective, for a person, Graphviz, LogGOPSim or ASTRA-sim.",
       .introduction = "Prints the schedules of a collective: the operations each rank carries out, "
                       "and what each of them waits for."},
      ScheduleCommand(), describe_options, run);
}

}  // namespace stretto::command
