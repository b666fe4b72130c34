#include "command/timed_allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>

#include "command/own_ranks.h"
#include "command/peers.h"
#include "stretto/collective/plain.h"

namespace stretto::command {

namespace {

constexpr double kMostCalls = 1e6;
constexpr double kEnough = 0.7;            // of the time wanted
constexpr std::uint64_t kLarge = 1 << 20;  // a call of so many bytes takes long

// What one rank does; rank 0 reports the lines that a peer program would print.
class AllreduceRank {
 public:
  AllreduceRank(RankContext& context, std::span<const std::uint64_t> sizes)
      : context_(context),
        engine_(context.transport(), clock_),
        barrier_(engine_),
        agree_(engine_, DataType::float64, 1),
        sums_(allreduces(engine_, sizes)),
        driver_(engine_, waiting_of(context)) {}

  void run(const AllreduceTiming& timing, std::span<const std::uint64_t> sizes) {
    std::string report;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      mine_.assign(sizes[i] / sizeof(float), 1.0f);
      sum_.resize(mine_.size());
      const auto [calls, once] = measure(sums_[i], seconds(timing.time), sizes[i] < kLarge ? 20 : 2);
      report += fmt::format("{} {} {:.4f}", sizes[i], calls, 1e6 * once);
      if (timing.each_call) {
        const std::vector<double> each = loop_one_by_one(sums_[i], calls);
        report += fmt::format(" {:.4f} {:.4f}", median(each), quantile(each, 0.99));
      }
      report += "\n";
      if (sum_.back() != static_cast<float>(context_.size())) {
        throw Failure({Errc::aborted, "a sum came out wrong"});
      }
    }
    if (context_.rank() == 0) context_.report(report);
  }

 private:
  // All of them before anybody drives the engine.
  static std::deque<Allreduce> allreduces(Engine& engine, std::span<const std::uint64_t> sizes) {
    std::deque<Allreduce> out;
    for (const std::uint64_t bytes : sizes) {
      out.emplace_back(engine, DataType::float32, bytes / sizeof(float), ReduceOp::sum);
    }
    return out;
  }

  TimePoint start_together() {
    barrier_.run(driver_, driver_.deadline(kCallPatience)).or_throw();
    return clock_.now();
  }

  struct Loops {
    int calls = 0;
    double once = 0;  // seconds for one call
  };
  // Loops for `wanted` seconds. In several turns where the calls before promised longer ones: what is 20 calls long may
  // be lengthened a hundred times by a rank that has lost its core.
  Loops measure(Allreduce& allreduce, double wanted, int warm_up) {
    double once = loop(allreduce, warm_up);
    int calls = 0;
    double taken = 0;
    while (true) {
      const double left = std::min((wanted - taken) / once, kMostCalls - calls);
      std::array<double, 1> more = {calls == 0 ? std::max(1.0, left) : left};
      if (calls > 0 && taken > kEnough * wanted) more = {0};
      agree_.run(driver_, driver_.deadline(kCallPatience), more).or_throw();
      const int next = static_cast<int>(more[0]);
      if (next == 0) return {calls, once};
      taken += next * loop(allreduce, next);
      calls += next;
      once = taken / calls;
    }
  }

  // Seconds for one call.
  double loop(Allreduce& allreduce, int calls) {
    const TimePoint begin = start_together();
    const TimePoint deadline = begin + kCallPatience;
    for (int i = 0; i < calls; ++i) allreduce.run(driver_, deadline, mine_, sum_).or_throw();
    return seconds(clock_.now() - begin) / calls;
  }

  // Microseconds of each call.
  std::vector<double> loop_one_by_one(Allreduce& allreduce, int calls) {
    std::vector<double> out(static_cast<std::size_t>(calls));
    TimePoint before = start_together();
    const TimePoint deadline = before + kCallPatience;
    for (double& microseconds : out) {
      allreduce.run(driver_, deadline, mine_, sum_).or_throw();
      const TimePoint after = clock_.now();
      microseconds = 1e6 * seconds(after - before);
      before = after;
    }
    return out;
  }

  RankContext& context_;
  const SteadyClock clock_;
  Engine engine_;
  Barrier barrier_;
  Broadcast agree_;
  std::deque<Allreduce> sums_;
  EngineDriver driver_;
  std::vector<float> mine_;
  std::vector<float> sum_;
};

}  // namespace

Result<std::vector<Reading>> measure_allreduce(int ranks, const AllreduceTiming& timing,
                                               std::span<const std::uint64_t> sizes) {
  const auto report = report_of_rank_0({.ranks = ranks}, [&](RankContext& context) {
    AllreduceRank(context, sizes).run(timing, sizes);
    return 0;
  });
  if (!report) return report.error();
  return parse_readings(*report, ranks, num_values(timing));
}

std::size_t num_values(const AllreduceTiming& timing) {
  return timing.each_call ? 4 : 2;
}

}  // namespace stretto::command
