#include "command/bench/timed_allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "command/bench/peers.h"
#include "command/cli/own_ranks.h"

namespace stretto::command {

namespace {

constexpr double kMostCalls = 1e6;
constexpr double kEnough = 0.7;            // of the time wanted
constexpr int kMostTimes = 10;             // the time wanted
constexpr int kCallsALook = 16;            // at the clock
constexpr float kGoOn = 1, kStop = 2;      // the first value of rank 0's contribution
constexpr std::uint64_t kLarge = 1 << 20;  // a call of so many bytes takes long

// All of them before anybody drives the engine.
std::deque<Allreduce> allreduces(Engine& engine, const AllreduceOptions& options,
                                 std::span<const std::uint64_t> sizes) {
  std::deque<Allreduce> out;
  for (const std::uint64_t bytes : sizes) {
    out.emplace_back(engine, DataType::float32, bytes / sizeof(float), ReduceOp::sum, options);
  }
  return out;
}

// One rank of the measurement; rank 0 reports the lines that a peer program would print.
class AllreduceRank {
 public:
  AllreduceRank(RankContext& context, const AllreduceTiming& timing, std::span<const std::uint64_t> sizes)
      : context_(context),
        timing_(timing),
        expected_(static_cast<float>(context.size()) * kGoOn),
        engine_(context.world().transport(), clock_),
        barrier_(engine_),
        agree_(engine_, DataType::float64, 1),
        sums_(allreduces(engine_, timing.options, sizes)),
        driver_(engine_, waiting_of(context)) {}

  void run(std::span<const std::uint64_t> sizes) {
    std::string report;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      prepare(sums_[i], sizes[i] / sizeof(float));
      const auto [calls, once] = measure(sums_[i], seconds(timing_.time), sizes[i] < kLarge ? 20 : 2);
      report += fmt::format("{} {} {:.4f}", sizes[i], calls, 1e6 * once);
      if (timing_.each_call) {
        const std::vector<double> each = loop_one_by_one(sums_[i], calls);
        report += fmt::format(" {:.4f} {:.4f}", median(each), quantile(each, 0.99));
      }
      report += "\n";
      loop(sums_[i], 1);
      const auto sums = sums_of(sums_[i]);
      if (sums.front() != expected_ || sums.back() != expected_) {
        throw Failure({Errc::aborted, "a sum came out wrong"});
      }
    }
    if (context_.rank() == 0) context_.report(report);
  }

 private:
  void prepare(Allreduce& allreduce, std::size_t count) {
    if (!timing_.options.registered) {
      mine_.resize(count);
      sum_.resize(count);
    }
    std::ranges::fill(numbers_of(allreduce), kGoOn);
  }

  std::span<float> numbers_of(Allreduce& allreduce) {
    return timing_.options.registered ? allreduce.input<float>() : mine_;
  }
  std::span<const float> sums_of(Allreduce& allreduce) {
    return timing_.options.registered ? allreduce.result<float>() : sum_;
  }

  void call(Allreduce& allreduce, TimePoint deadline) {
    const auto done =
        timing_.options.registered ? allreduce.run(driver_, deadline) : allreduce.run(driver_, deadline, mine_, sum_);
    done.or_throw();
  }

  TimePoint start_together() {
    barrier_.run(driver_, driver_.deadline(kCallTimeout)).or_throw();
    return clock_.now();
  }

  struct Loops {
    int calls = 0;
    double once = 0;  // seconds for one call
  };
  // Loops for `wanted` seconds. In several turns where the calls before promised longer ones: what is 20 calls long may
  // be lengthened a hundred times by a rank that has lost its core.
  Loops measure(Allreduce& allreduce, double wanted, int warm_up) {
    double once = loop(allreduce, warm_up).once;
    int calls = 0;
    double taken = 0;
    while (true) {
      const double left = std::min((wanted - taken) / once, kMostCalls - calls);
      std::array<double, 1> more = {calls == 0 ? std::max(1.0, left) : left};
      if (calls > 0 && taken > kEnough * wanted) more = {0};
      agree_.run(driver_, driver_.deadline(kCallTimeout), more).or_throw();
      const int next = static_cast<int>(more[0]);
      if (next == 0) return {calls, once};
      const Loops more_calls = loop(allreduce, next);
      taken += more_calls.calls * more_calls.once;
      calls += more_calls.calls;
      once = taken / calls;
    }
  }

  // Calls until there were so many, or until they take far longer than those before have promised: by a factor of
  // thousands where busy ranks share cores with others. Rank 0 says so with what it brings.
  Loops loop(Allreduce& allreduce, int calls) {
    float& vote = numbers_of(allreduce).front();
    vote = kGoOn;
    const TimePoint begin = start_together();
    const TimePoint limit = begin + kMostTimes * timing_.time;
    int done = 0;
    while (done < calls) {
      call(allreduce, begin + kCallTimeout);
      ++done;
      if (sums_of(allreduce).front() != expected_) break;
      if (context_.rank() == 0 && done % kCallsALook == 0 && clock_.now() > limit) vote = kStop;
    }
    return {done, seconds(clock_.now() - begin) / done};
  }

  // Microseconds of each call.
  std::vector<double> loop_one_by_one(Allreduce& allreduce, int calls) {
    std::vector<double> out;
    out.reserve(static_cast<std::size_t>(calls));
    float& vote = numbers_of(allreduce).front();
    vote = kGoOn;
    const TimePoint begin = start_together();
    TimePoint before = begin;
    do {
      call(allreduce, begin + kCallTimeout);
      const TimePoint after = clock_.now();
      out.push_back(1e6 * seconds(after - before));
      before = after;
      if (context_.rank() == 0 && after > begin + kMostTimes * timing_.time) vote = kStop;
    } while (std::ssize(out) < calls && sums_of(allreduce).front() == expected_);
    return out;
  }

  RankContext& context_;
  const AllreduceTiming& timing_;
  const float expected_;  // sum over all ranks
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
  const RankMain main = [&](RankContext& context) {
    AllreduceRank(context, timing, sizes).run(sizes);
    return 0;
  };
  const auto report = report_of_rank_0({.ranks = ranks}, main, timing.hosts.get());
  if (!report) return report.error();
  return parse_readings(*report, ranks, num_values(timing));
}

Result<std::vector<std::string>> explain_allreduce(int ranks, const AllreduceTiming& timing,
                                                   std::span<const std::uint64_t> sizes) {
  const RankMain main = [&](RankContext& context) {
    const SteadyClock clock;
    Engine engine(context.world().transport(), clock);
    std::string lines;
    for (const Allreduce& allreduce : allreduces(engine, timing.options, sizes))
      lines += allreduce.explanation() + "\n";
    if (context.rank() == 0) context.report(lines);
    return 0;
  };
  const auto report = report_of_rank_0({.ranks = ranks}, main, timing.hosts.get());
  if (!report) return report.error();
  std::vector<std::string> out = split_list(*report, '\n');
  out.pop_back();
  return out;
}

std::size_t num_values(const AllreduceTiming& timing) {
  return timing.each_call ? 4 : 2;
}

double bus_bandwidth(int ranks, std::uint64_t bytes, double microseconds) {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / microseconds / 1e3;
}

namespace {

// A prediction is a sum of costs times how often they occur: linear in the times and in the inverse of the rates. Only
// what fits into the cache is not, and tried out.
constexpr std::size_t kCosts = 6;
using Costs = std::array<double, kCosts>;  // hand_off, turn, start, 1/sum_rate, 1/move_rate, 1/memory_rate

constexpr Costs kLeast = {1e-4, 1e-4, 1e-4, 1e-7, 1e-7, 1e-7};            // a file has numbers above 0
constexpr std::array<int, 9> kCaches = {1, 2, 4, 8, 12, 16, 24, 32, 64};  // MiB
constexpr int kMostSweeps = 20'000;
constexpr double kNearEnough = 1e-9;  // relative change of a sweep

AllreduceCosts to_costs(const Costs& x, double cache) {
  return {.hand_off = x[0],
          .turn = x[1],
          .start = x[2],
          .sum_rate = 1 / x[3],
          .move_rate = 1 / x[4],
          .cache = cache,
          .memory_rate = 1 / x[5]};
}

Costs to_linear(const AllreduceCosts& costs) {
  return {costs.hand_off, costs.turn, costs.start, 1 / costs.sum_rate, 1 / costs.move_rate, 1 / costs.memory_rate};
}

// How often each cost occurs in the call, over the call's time: multiplied by the costs this should be 1.
Costs row_of(const MeasuredCall& call, double cache) {
  Costs row{};
  for (std::size_t j = 0; j < kCosts; ++j) {
    Costs one{};
    one[j] = 1;
    row[j] = predicted_us(call.way, call.task, to_costs(one, cache)) / call.microseconds;
  }
  return row;
}

struct Fit {
  AllreduceCosts costs;
  double squares = 0;  // of the relative errors, their sum
};

Fit fit_with(std::span<const MeasuredCall> calls, double cache) {
  std::vector<Costs> rows;
  for (const MeasuredCall& call : calls) rows.push_back(row_of(call, cache));
  Costs x = to_linear({});
  const auto predicted = [&x](const Costs& row) { return std::inner_product(row.begin(), row.end(), x.begin(), 0.0); };
  // Coordinate descent: the problem is convex, and the bounds are those of each cost by itself.
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double change = 0;
    for (std::size_t j = 0; j < kCosts; ++j) {
      double product = 0;
      double square = 0;
      for (const Costs& row : rows) {
        product += row[j] * (1 - predicted(row) + row[j] * x[j]);
        square += row[j] * row[j];
      }
      if (square == 0) continue;
      const double next = std::max(kLeast[j], product / square);
      change = std::max(change, std::abs(next - x[j]) / next);
      x[j] = next;
    }
    if (change < kNearEnough) break;
  }
  Fit out{to_costs(x, cache)};
  for (const Costs& row : rows) out.squares += (predicted(row) - 1) * (predicted(row) - 1);
  return out;
}

}  // namespace

AllreduceCosts fit_costs(std::span<const MeasuredCall> calls) {
  Fit best{{}, std::numeric_limits<double>::infinity()};
  for (const int mebibytes : kCaches) {
    const Fit fit = fit_with(calls, mebibytes * 1024.0 * 1024.0);
    if (fit.squares < best.squares) best = fit;
  }
  return best.costs;
}

}  // namespace stretto::command
