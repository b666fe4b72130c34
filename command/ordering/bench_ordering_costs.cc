#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command/bench/timed_allreduce.h"
#include "command/bench/timed_link.h"
#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/machine/machine.h"
#include "command/ordering/ordering_commands.h"
#include "command/ordering/timed_oversleep.h"
#include "command/ordering/timed_plans.h"
#include "command/statistics/statistics.h"
#include "stretto/base/machine/cores.h"
#include "stretto/observe/whole_file.h"
#include "stretto/papers/ordering/scale/ordering_calibration.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kControlBytes = 64;
/// What the experiment on one core is scaled by: there a spinning thread's equal share is a half.
constexpr double kShareOfOneCore = 0.5;

struct OrderingCalibrationCommand {
  std::string out = "ordering-costs.json";
  int sleeps = 1000;
  Duration time = 3s;
  int most_ranks = 32;
};

void describe_options(CommandLine& line, OrderingCalibrationCommand& command) {
  line.heading("The measurement");
  line.option("--sleeps", "N", "Of a thread on a free core, and beside one that computes. Default 1000.",
              into(command.sleeps, 10, 1'000'000, "1000"));
  line.option("--time", "TIME", "Of computation, alone and beside a spinning thread. Default 3s.",
              into(command.time, "3s"));
  line.option("--ranks", "N", "Small allreduces of 2, 4, 8, … up to so many processes. Default 32.",
              into(command.most_ranks, 2, 1024, "32"));
  line.heading("Output");
  line.option("--out", "FILE", "Where the costs go, as JSON. Default " + command.out + ".",
              writable_file_into(command.out));
  line.example("stretto bench ordering-costs --out here.json", "A quarter of a minute.");
  line.note(
      "Measures what stretto reproduce ordering --calibration FILE is to be told of this machine: how much later than "
      "asked threads wake, what a spinning thread takes from one that computes, how long small allreduces take, and "
      "what a planned order costs for each buffer. Nothing else should run meanwhile.");
}

/// What a small allreduce takes: a + b · log2(P). Nearest in seconds: it is used for more ranks than are measured, and
/// where these outnumber the cores a relative fit would be that of two ranks, which spin.
LinkLine control_line(int most_ranks, Json& measured) {
  std::vector<TimedTransfer> times;
  const std::vector<std::uint64_t> sizes = {kControlBytes};
  for (int ranks = 2; ranks <= most_ranks; ranks *= 2) {
    const auto readings = measure_allreduce(ranks, {.time = 200ms}, sizes).or_throw();
    const double seconds = 1e-6 * readings.front().values[1];
    times.push_back({std::log2(ranks), seconds});
    measured.push_back({{"ranks", ranks}, {"seconds", seconds}});
  }
  if (times.size() == 1) return {times.front().seconds, INFINITY};
  return fit_line(times, FitErrors::in_seconds);  // over the number of doublings, in place of bytes
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

int run(const OrderingCalibrationCommand& command) {
  OrderingCalibration out;
  out.machine = this_machine().cpu;
  out.date = today();
  OrderingCosts& costs = out.costs;
  Json measured;

  const Oversleeps free = measure_oversleep({.beside = 0, .spins = false, .sleeps = command.sleeps});
  const Oversleeps busy = measure_oversleep({.beside = 1, .spins = true, .sleeps = command.sleeps});
  costs.oversleep_free = DelayDistribution::of_samples(free.seconds);
  costs.oversleep_busy = DelayDistribution::of_samples(busy.seconds);
  costs.look = free.processor;

  // On one core a spinning thread has a half; beside the input pipeline of the simulated job it has less, and takes as
  // much less from the others.
  const SpinPauses pauses = measure_spin_pauses(command.time);
  const OrderedJob job = paper_job(1);
  const double share = 1 - static_cast<double>(job.cores) / job.threads();
  costs.spin_stretch = pauses.short_share / kShareOfOneCore;
  if (!pauses.seconds.empty()) {
    costs.pause = DelayDistribution::of_samples(pauses.seconds);
    costs.preemption_rate = pauses.per_second * share / kShareOfOneCore;
    costs.pause_rate = pauses.alone_share / costs.pause.mean();
  }
  measured["pauses_beside_spinning_per_second"] = pauses.per_second;
  measured["lost_in_short_pauses_beside_spinning"] = pauses.short_share;
  measured["lost_alone"] = pauses.alone_share;

  Json allreduces = Json::array();
  const LinkLine control = control_line(command.most_ranks, allreduces);
  measured["allreduces"] = std::move(allreduces);
  costs.control = control.latency;
  costs.control_doubling = control.seconds(1) - control.latency;

  costs.bookkeeping = measure_bookkeeping(1000);
  const CoreSharing sharing = core_sharing();
  measured["slice_ns"] = sharing.slice_ns ? Json(*sharing.slice_ns) : Json();
  measured["throttled_microseconds"] = sharing.throttled_microseconds ? Json(*sharing.throttled_microseconds) : Json();
  measured["machine"] = this_machine().to_json();

  write_whole_file(command.out, to_json(out, measured.dump())).or_throw();
  print_to(stdout,
           fmt::format("oversleep: mean {:.3g} ms on a free core, {:.3g} ms on a busy one\n"
                       "beside a spinning thread: {:.3g} pauses a second of {:.3g} ms, and {:.2g} % in short ones\n"
                       "small allreduce: {:.3g} µs + {:.3g} µs for each doubling of the ranks\n"
                       "a planned buffer: {:.3g} µs\n{}\n",
                       1e3 * costs.oversleep_free.mean(), 1e3 * costs.oversleep_busy.mean(), pauses.per_second,
                       1e3 * costs.pause.mean(), 100 * pauses.short_share, 1e6 * costs.control,
                       1e6 * costs.control_doubling, 1e6 * costs.bookkeeping, command.out));
  return kSuccess;
}

}  // namespace

Subcommand bench_ordering_costs_command() {
  return make_command({.name = "ordering-costs",
                       .summary = "What threads and small messages cost here, for the simulation of orderings.",
                       .introduction = "Measures what threads and small messages cost on this machine, and writes it "
                                       "for stretto reproduce ordering."},
                      OrderingCalibrationCommand(), describe_options, run);
}

}  // namespace stretto::command
