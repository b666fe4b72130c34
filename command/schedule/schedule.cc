#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <span>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/print.h"
#include "command/commands.h"
#include "stretto/base/error.h"
#include "stretto/base/words/suggest.h"
#include "stretto/collective/schedules/partial_schedule.h"
#include "stretto/collective/schedules/plain_schedules.h"
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
  std::string order = "fixed";
  std::string algorithm;
  int root = 0;
  std::string format = "text";
  int initiator = 0;
  int rank = -1;                   // −1: all
  std::vector<std::string> given;  // options that not every collective and format has
};

struct Scope {
  std::string_view option;
  std::vector<std::string_view> of;  // collectives
};

const std::vector<Scope> kScopes = {{"--count", {"allreduce", "partial", "broadcast", "allgather"}},
                                    {"--type", {"allreduce", "partial", "broadcast", "allgather"}},
                                    {"--op", {"allreduce", "partial"}},
                                    {"--order", {"allreduce", "partial"}},
                                    {"--algorithm", {"allreduce"}},
                                    {"--root", {"broadcast"}}};

const std::map<std::string, DataType> kTypes = {{"float32", DataType::float32},   {"float64", DataType::float64},
                                                {"int32", DataType::int32},       {"int64", DataType::int64},
                                                {"bfloat16", DataType::bfloat16}, {"float16", DataType::float16}};
const std::map<std::string, ReduceOp> kOps = {{"sum", ReduceOp::sum}, {"min", ReduceOp::min}, {"max", ReduceOp::max}};
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

void require_effect(const ScheduleCommand& command) {
  const auto was_given = [&command](std::string_view option) {
    return std::ranges::find(command.given, option) != command.given.end();
  };
  for (const Scope& scope : kScopes) {
    if (!was_given(scope.option) || std::ranges::find(scope.of, command.collective) != scope.of.end()) continue;
    throw UsageError(fmt::format("{} has no effect with {}: leave it out", scope.option, command.collective));
  }
  if (was_given("--algorithm") && was_given("--order")) {
    throw UsageError("--order has no effect with --algorithm, which it would choose: leave one of them out");
  }
  if (was_given("--initiator") && command.format != "goal") {
    throw UsageError("--initiator has no effect without --format goal: leave it out");
  }
}

void describe_options(CommandLine& line, ScheduleCommand& command) {
  constexpr int kMost = 4096;
  line.positional("COLLECTIVE", CommandLine::Presence::required,
                  "which one: allreduce, partial (the partial allreduce), broadcast, barrier or allgather",
                  one_of(command.collective, {"allreduce", "partial", "broadcast", "barrier", "allgather"}));
  line.heading("The collective");
  line.option("--ranks", "N", "How many ranks take part; any number. Default 4.", into(command.ranks, 1, kMost, "4"));
  line.option("--count", "N", "Elements of the bucket. Default 1024. Large buckets are reduced by another algorithm.",
              noted(command, into(command.count, 1, "1024")));
  line.option("--type", "TYPE", fmt::format("{}. Default float32.", join(names(kTypes))),
              noted(command, one_of(command.type, names(kTypes))));
  line.option("--op", "OP", "sum (default), min or max.", noted(command, one_of(command.op, names(kOps))));
  line.option("--order", "ORDER",
              "fixed (default): one tree, whatever the timing, so that results repeat to the bit. arrival: what comes "
              "first is added first, in large buckets; faster when ranks come at different times.",
              noted(command, one_of(command.order, {"fixed", "arrival"})));
  line.option("--algorithm", "NAME",
              "allreduce only: recursive-doubling (few messages: for small buckets), halving-doubling (few bytes: for "
              "large ones) or direct. Default: what --count and --order lead to.",
              noted(command, one_of(command.algorithm, names(kAlgorithms))));
  line.option("--root", "R", "broadcast only: the rank that has the data. Default 0.",
              noted(command, into(command.root, 0, kMost - 1, "0")));
  line.heading("Printing");
  line.option("--format", "FORMAT",
              "text (default): one line an operation. dot: for Graphviz. goal: for LogGOPSim, which knows only "
              "\"all predecessors\", so the schedule is printed with its activation resolved.",
              one_of(command.format, {"text", "dot", "goal"}));
  line.option("--initiator", "R", "goal only: the rank that starts the round. Default 0.",
              noted(command, into(command.initiator, 0, kMost - 1, "0")));
  line.option("--rank", "R", "Only this rank's schedule (text and dot). Default: all ranks.",
              into(command.rank, 0, kMost - 1, "0"));
  line.example("stretto schedule partial --ranks 4 --rank 0",
               "What one rank does in a round of the partial allreduce.");
  line.example("stretto schedule allreduce --ranks 8 --format dot | dot -Tsvg > allreduce.svg", "A picture of it.");
  line.example("stretto schedule partial --ranks 32 --format goal --initiator 3 > solo.goal",
               "A solo round that rank 3 starts, to be simulated by LogGOPSim.");
}

void require_below_ranks(std::string_view option, int value, int ranks) {
  if (value < ranks) return;
  reject(option, std::to_string(value), fmt::format("expected a rank from 0 to {}, for there are {}", ranks - 1, ranks),
         "0");
}

Schedule schedule_of(const ScheduleCommand& command, int rank) {
  const DataType type = kTypes.at(command.type);
  const ReduceOp op = kOps.at(command.op);
  const SumOrder order = command.order == "fixed" ? SumOrder::fixed : SumOrder::arrival;
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
  return allreduce_schedule(rank, command.ranks, type, command.count, op, algorithm);
}

int run(const ScheduleCommand& command) {
  require_effect(command);
  require_below_ranks("--root", command.root, command.ranks);
  require_below_ranks("--initiator", command.initiator, command.ranks);
  require_below_ranks("--rank", command.rank, command.ranks);
  if (command.rank >= 0 && command.format == "goal") {
    throw UsageError("--rank: --format goal prints all ranks, for a message needs both ends; leave --rank out");
  }

  std::vector<Schedule> schedules;
  for (int rank = 0; rank < command.ranks; ++rank) schedules.push_back(schedule_of(command, rank));
  validate(schedules);
  const auto chosen = command.rank < 0
                          ? std::span<const Schedule>(schedules)
                          : std::span<const Schedule>(&schedules[static_cast<std::size_t>(command.rank)], 1);
  std::string out;
  if (command.format == "goal") {
    out = to_goal(schedules, command.initiator);
  } else if (command.format == "dot") {
    out = to_dot(chosen);
  } else {
    for (const Schedule& schedule : chosen) out += to_text(schedule) + (&schedule == &chosen.back() ? "" : "\n");
  }
  print_to(stdout, out);
  return kSuccess;
}

}  // namespace

Subcommand schedule_command() {
  return make_command({.name = "schedule",
                       .summary = "Prints the operations of a collective, for a person, Graphviz or LogGOPSim.",
                       .introduction = "Prints the schedules of a collective: the operations each rank carries out, "
                                       "and what each of them waits for."},
                      ScheduleCommand(), describe_options, run);
}

}  // namespace stretto::command
