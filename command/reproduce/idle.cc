#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/own_ranks.h"
#include "command/cli/progress.h"
#include "command/machine/machine.h"
#include "command/machine/measuring.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/imbalance/pace.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kSettle = 50ms;  // from the barrier on: ranks that wait are asleep by then

struct IdleCommand {
  int ranks = 8;
  int pairs = 30;
  Duration work = 250ms;
  Output output;
};

Result<double> seconds_of_rank_0(const JobOptions& options, const RankMain& main) {
  const auto text = report_of_rank_0(options, main);
  if (!text) return text.error();
  double value = 0;
  std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

// Rank 0 computes, the others wait for it in a round of policy full.
int waiting_rank(RankContext& context, std::uint64_t work) {
  const SteadyClock clock;
  auto& barrier = *reinterpret_cast<SharedBarrier*>(context.extra().data());
  Engine engine(context.world().transport(), clock);
  PartialAllreduce partial(engine, {{DataType::float32, 1024}});
  EngineDriver driver(engine);
  Contribution& contribution = partial.acquire();
  const TimePoint start = barrier.wait(static_cast<std::uint32_t>(context.size()), kSettle);
  if (context.rank() == 0) {
    sleep_until(start);
    context.report(fmt::format("{}", timed_work(work)));
  }
  const auto ignore = [](const RoundResult&) {};
  partial.deposit(contribution, {});
  partial.exchange(driver, clock.now() + kCallTimeout, ignore).or_throw();
  partial.finish(driver, clock.now() + kCallTimeout, ignore).or_throw();
  return 0;
}

// Seconds that a fixed amount of work takes in a process of its own, alone and as one of `ranks` of which the others
// wait in a full round for it. `work` is a number of passes (measuring.h).
Result<double> seconds_alone(std::uint64_t work) {
  return seconds_of_rank_0({.ranks = 1}, [work](RankContext& context) {
    context.report(fmt::format("{}", timed_work(work)));
    return 0;
  });
}

Result<double> seconds_beside_waiting(int ranks, std::uint64_t work) {
  const JobOptions options{.ranks = ranks, .extra_bytes = sizeof(SharedBarrier)};
  return seconds_of_rank_0(options, [work](RankContext& context) { return waiting_rank(context, work); });
}

void describe_options(CommandLine& line, IdleCommand& command) {
  line.heading("The experiment");
  line.option("--ranks", "N", "How many: one computes, the others wait. Default 8.",
              into(command.ranks, 2, JobMemory::kMaxRanks, "8"));
  line.option("--pairs", "N", "Measurements with and without them, interleaved. Default 30.",
              into(command.pairs, 1, 10000, "30"));
  line.option("--work", "TIME", "How long the computation takes, about. Default 250ms.", into(command.work, "250ms"));
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto reproduce idle", "A quarter of a minute.");
}

int run(const IdleCommand& command) {
  const Machine machine = this_machine();
  command.output.say(machine.to_text());
  const std::uint64_t work = calibrate(command.work);

  std::vector<double> ratios;
  std::optional<Progress> progress(std::in_place, "idle", "pairs", static_cast<std::uint64_t>(command.pairs));
  for (int pair = 0; pair < command.pairs; ++pair) {
    double with = 0;
    double without = 0;
    // The other one first every time: a machine that gets slower or faster favours neither.
    for (const bool waiting : {pair % 2 == 0, pair % 2 != 0}) {
      (waiting ? with : without) =
          (waiting ? seconds_beside_waiting(command.ranks, work) : seconds_alone(work)).or_throw();
    }
    ratios.push_back(without / with);
    progress->update(ratios.size());
  }
  progress.reset();
  const Interval interval = median_interval(ratios);
  command.output.say(fmt::format(
      "speed of a rank that computes while {} wait, over its speed alone: median {:.4f}, 95 % interval {:.4f} to "
      "{:.4f}, {} pairs of {}\nexpected: at least 0.99",
      command.ranks - 1, interval.estimate, interval.low, interval.high, command.pairs, to_text(command.work)));
  command.output.emit({{"ranks", command.ranks},
                       {"pairs", command.pairs},
                       {"ratio", {{"median", interval.estimate}, {"low", interval.low}, {"high", interval.high}}},
                       {"ratios", ratios},
                       {"machine", machine.to_json()}});
  return kSuccess;
}

}  // namespace

Subcommand idle_command() {
  return make_command(
      {.name = "idle",
       .summary = "What ranks that wait cost the one that computes.",
       .introduction = "How fast one rank computes while the others wait for it, over how fast it computes alone and "
                       "without the library: what the library costs while it has nothing to do."},
      IdleCommand(), describe_options, run);
}

}  // namespace stretto::command
