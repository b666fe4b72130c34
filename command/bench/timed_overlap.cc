#include "command/bench/timed_overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "command/bench/peers.h"
#include "command/cli/own_ranks.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/plain.h"
#include "stretto/imbalance/pace.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLeadOfSteps = 2ms;  // from the end of the barrier to the first step: all are awake by then
constexpr int kWarmUpSteps = 10;        // so many that every set of buffers has been touched

enum class Mode { compute, collective, at_once, blocking, overlapped };

// One rank; rank 0 reports a line for `bytes`, as a peer program prints it.
class OverlapRank {
 public:
  OverlapRank(RankContext& context, const OverlapExperiment& experiment, std::uint64_t bytes)
      : context_(context),
        experiment_(experiment),
        share_((experiment.work + context.rank() * experiment.skew) / experiment.buckets),
        bytes_(bytes),
        engine_(context.world().transport(), clock_),
        start_(engine_),
        partial_(engine_, buckets()),
        largest_(engine_, DataType::float64, 1, ReduceOp::max),
        driver_(engine_, waiting_of(context)) {}

  std::string run() {
    measure(Mode::collective, kWarmUpSteps);
    std::string line = std::to_string(bytes_);
    for (const Mode mode : {Mode::compute, Mode::collective, Mode::at_once, Mode::blocking, Mode::overlapped}) {
      line += fmt::format(" {:.6f}", measure(mode, experiment_.steps));
    }
    partial_.finish(driver_, driver_.deadline(kCallTimeout), [](const RoundResult&) {}).or_throw();
    return line + "\n";
  }

 private:
  std::vector<BucketSpec> buckets() const {
    const auto num_buckets = static_cast<std::uint64_t>(experiment_.buckets);
    return {num_buckets, BucketSpec{DataType::float32, bytes_ / num_buckets / sizeof(float)}};
  }

  // Milliseconds a step takes on the slowest rank.
  double measure(Mode mode, int steps) {
    const TimePoint start = start_.wait(driver_, kLeadOfSteps);
    sleep_until(start);
    for (int i = 0; i < steps; ++i) step(mode);
    const std::array<double, 1> mine = {1e3 * seconds(clock_.now() - start) / steps};
    std::array<double, 1> slowest{};
    largest_.run(driver_, driver_.deadline(kCallTimeout), mine, slowest).or_throw();
    return slowest[0];
  }

  void step(Mode mode) {
    const bool computes = mode != Mode::collective && mode != Mode::at_once;
    const bool one_by_one = mode == Mode::overlapped || mode == Mode::at_once;
    const TimePoint begin = clock_.now();
    if (mode == Mode::compute) {
      for (int i = 0; i < experiment_.buckets; ++i) compute(begin, i);
      return;
    }
    Contribution& contribution = partial_.acquire();
    if (one_by_one) partial_.begin_deposit(contribution, {});
    for (int i = 0; i < experiment_.buckets; ++i) {
      if (computes) compute(begin, i);
      contribution.as<float>(i).front() = contribution.as<float>(i).back() = 1.0f;
      if (one_by_one) partial_.bucket_ready(contribution, i);
    }
    if (!one_by_one) partial_.deposit(contribution, {});
    partial_.exchange(driver_, driver_.deadline(kCallTimeout), [this](const RoundResult& result) { check(result); })
        .or_throw();
  }

  void compute(TimePoint begin, int bucket) const { sleep_until(begin + (bucket + 1) * share_); }

  void check(const RoundResult& result) const {
    for (int i = 0; i < experiment_.buckets; ++i) {
      const auto sum = result.as<float>(i);
      if (sum.front() != static_cast<float>(context_.size()) || sum.back() != sum.front()) {
        throw Failure({Errc::aborted, "a sum came out wrong"});
      }
    }
  }

  RankContext& context_;
  const OverlapExperiment& experiment_;
  const Duration share_;
  const std::uint64_t bytes_;
  const SteadyClock clock_;
  Engine engine_;
  CommonStart start_;
  PartialAllreduce partial_;
  Allreduce largest_;
  EngineDriver driver_;
};

}  // namespace

Result<std::vector<Reading>> measure_overlap(int ranks, const OverlapExperiment& experiment,
                                             std::span<const std::uint64_t> sizes) {
  std::vector<Reading> out;
  for (const std::uint64_t bytes : sizes) {
    const RankMain main = [&](RankContext& context) {
      const std::string line = OverlapRank(context, experiment, bytes).run();
      if (context.rank() == 0) context.report(line);
      return 0;
    };
    const auto report = report_of_rank_0({.ranks = ranks}, main, experiment.hosts.get());
    if (!report) return report.error();
    for (Reading& reading : parse_readings(*report, ranks, kOverlapValues)) out.push_back(std::move(reading));
  }
  return out;
}

double hidden_share(double compute, double collective, double both) {
  return (compute + collective - both) / std::min(compute, collective);
}

}  // namespace stretto::command
