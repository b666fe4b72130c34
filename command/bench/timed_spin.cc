#include "command/bench/timed_spin.h"

#include <fmt/format.h>

#include <string>

#include "command/bench/peers.h"
#include "command/cli/own_ranks.h"
#include "command/machine/measuring.h"
#include "stretto/collective/plain.h"
#include "stretto/imbalance/pace.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kSettle = 20ms;   // from the barrier on: by then all other ranks sleep or wait
constexpr double kSleepsLonger = 3;  // than the work takes, so that no rank wakes up meanwhile

// One rank; rank 0 reports a line for `bytes`, as a peer program prints it.
class SpinRank {
 public:
  SpinRank(RankContext& context, const SpinExperiment& experiment, std::uint64_t passes, std::uint64_t bytes)
      : context_(context),
        experiment_(experiment),
        passes_(passes),
        barrier_(*reinterpret_cast<SharedBarrier*>(context.extra().data())),
        engine_(context.world().transport(), clock_),
        allreduce_(engine_, DataType::float32, bytes / sizeof(float), ReduceOp::sum),
        driver_(engine_, waiting_of(context)),
        mine_(bytes / sizeof(float), 1.0f),
        sum_(mine_.size()) {}

  std::string run() {
    std::vector<double> asleep, waiting, slowdowns;
    for (int pair = 0; pair < experiment_.pairs; ++pair) {
      // The other one first every time: a machine that gets slower or faster favours neither.
      for (const bool others_sleep : {pair % 2 == 0, pair % 2 != 0}) {
        (others_sleep ? asleep : waiting).push_back(measure(others_sleep));
      }
      slowdowns.push_back(waiting.back() / asleep.back());
    }
    if (sum_.back() != static_cast<float>(context_.size())) throw Failure({Errc::aborted, "a sum came out wrong"});
    return fmt::format("{} {:.6f} {:.6f} {:.6f}\n", mine_.size() * sizeof(float), 1e3 * median(asleep),
                       1e3 * median(waiting), median(slowdowns));
  }

 private:
  // Seconds that rank 0's work takes while the others sleep, or wait for it in the collective.
  double measure(bool others_sleep) {
    const TimePoint start = barrier_.wait(static_cast<std::uint32_t>(context_.size()), kSettle);
    double taken = 0;
    if (context_.rank() == 0) {
      sleep_until(start);
      taken = timed_work(passes_);
    } else if (others_sleep) {
      sleep_until(start + from_seconds(kSleepsLonger * seconds(experiment_.work)));
    }
    allreduce_.run(driver_, driver_.deadline(kCallTimeout), mine_, sum_).or_throw();
    return taken;
  }

  RankContext& context_;
  const SpinExperiment& experiment_;
  const std::uint64_t passes_;
  SharedBarrier& barrier_;
  const SteadyClock clock_;
  Engine engine_;
  Allreduce allreduce_;
  EngineDriver driver_;
  std::vector<float> mine_;
  std::vector<float> sum_;
};

}  // namespace

Result<std::vector<Reading>> measure_spin(int ranks, const SpinExperiment& experiment,
                                          std::span<const std::uint64_t> sizes) {
  const std::uint64_t passes = calibrate(experiment.work);
  std::vector<Reading> out;
  for (const std::uint64_t bytes : sizes) {
    const JobOptions job{.ranks = ranks, .extra_bytes = sizeof(SharedBarrier)};
    const auto report = report_of_rank_0(job, [&](RankContext& context) {
      const std::string line = SpinRank(context, experiment, passes, bytes).run();
      if (context.rank() == 0) context.report(line);
      return 0;
    });
    if (!report) return report.error();
    for (Reading& reading : parse_readings(*report, ranks, kSpinValues)) out.push_back(std::move(reading));
  }
  return out;
}

}  // namespace stretto::command
