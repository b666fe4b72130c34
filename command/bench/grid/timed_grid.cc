#include "command/bench/grid/timed_grid.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <vector>

#include "command/cli/own_ranks.h"
#include "command/statistics/statistics.h"
#include "stretto/base/machine/cores.h"
#include "stretto/base/random.h"
#include "stretto/collective/base/scheduled_collective.h"
#include "stretto/schedule/builder.h"
#include "stretto/train/job/run.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr Duration kGridLead = 20ms;             // until all are awake
constexpr std::uint64_t kWireBytes = 8'000'000;  // that a node sends in a call, to all of its peers together
constexpr int kWireCalls = 2;                    // under way, so that the wire is never idle
constexpr double kAlpha = 0.3;                   // that of the paper's rule
constexpr int kWarmUp = 4;                       // a part of the time

/// The other nodes in the lines of one.
std::vector<int> line_peers(int node, const GridLayout& layout) {
  std::vector<int> peers;
  for (int dimension = 0; dimension < layout.dimensions(); ++dimension) {
    const std::vector<int> line = layout.line_of(node, dimension);
    std::ranges::copy_if(line, std::back_inserter(peers), [node](int other) { return other != node; });
  }
  return peers;
}

/// Each node sends each of those `count` numbers, and receives as many.
Schedule among_lines(int node, int nodes, const std::vector<int>& peers, std::uint64_t count) {
  ScheduleBuilder b("among lines", node, nodes);
  const BufferId mine = b.buffer("mine", DataType::float32, count);
  std::vector<OpId> all;
  for (const int peer : peers) {
    const BufferId theirs = b.scratch(text("from.", peer), DataType::float32, count);
    all.push_back(b.send(peer, 0, b.whole(mine), {}));
    all.push_back(b.recv(peer, 0, b.whole(theirs), {}));
  }
  return b.build(b.nop(all));
}

std::deque<ScheduledCollective> wire_calls(Engine& engine, const Schedule& schedule) {
  std::deque<ScheduledCollective> out;
  for (int call = 0; call < kWireCalls; ++call) out.emplace_back(engine, schedule);
  return out;
}

struct Rate {
  double amount = 0, seconds = 0;
};

/// What has been counted of a node's lines.
struct GridSums {
  std::uint64_t bytes = 0, rounds = 0, contributions = 0, without = 0;
  double additions = 0;
};

/// Processor time that this process has used.
Duration process_time() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + Duration(used.tv_nsec);
}

/// One node of the measurement.
class TimedNode {
 public:
  TimedNode(RankContext& context, std::uint64_t elements, const GridTiming& timing)
      : context_(context),
        timing_(timing),
        layout_(context.size(), timing.options.grid),
        peers_(line_peers(context.rank(), layout_)),
        engine_(context.world().transport(), clock_),
        start_(engine_),
        agree_(engine_, DataType::float64, 1),
        wire_count_(kWireBytes / sizeof(float) / std::max<std::size_t>(1, peers_.size())),
        wire_(wire_calls(engine_, among_lines(context.rank(), context.size(), peers_, wire_count_))),
        grid_(engine_, {{DataType::float32, elements}}, timing.options),
        driver_(engine_, waiting_of(context)),
        message_(wire_count_, 1.0f),
        model_(elements, static_cast<float>(context.rank() + 1)) {
    Random random(0);  // the same on all nodes
    for (float& number : model_) number = random.chance(timing.zeros) ? 0 : number;
  }

  void run() {
    const Rate before = measure_wire();
    Json report = measure_lines();
    const Rate behind = measure_wire();
    report["wire"] = (before.amount + behind.amount) / (before.seconds + behind.seconds);
    context_.report(report.dump());
  }

 private:
  TimePoint limit() const { return driver_.deadline(kCallTimeout); }

  Rate measure_wire() {
    start_.wait(driver_, kGridLead);
    const TimePoint first = clock_.now();
    call_wire(wire_.size());
    const double once = seconds(clock_.now() - first) / kWireCalls;
    std::vector<double> calls{std::max<double>(kWireCalls, std::round(seconds(timing_.time) / 2 / once))};
    agree_.run(driver_, limit(), calls).or_throw();
    start_.wait(driver_, kGridLead);
    const TimePoint begin = clock_.now();
    call_wire(static_cast<std::size_t>(calls.front()));
    const double bytes = calls.front() * static_cast<double>(peers_.size() * wire_count_ * sizeof(float));
    return {bytes, seconds(clock_.now() - begin)};
  }
  /// So many calls, kWireCalls of them at a time.
  void call_wire(std::size_t calls) {
    for (std::size_t call = 0; call < calls + wire_.size(); ++call) {
      ScheduledCollective& next = wire_[call % wire_.size()];
      if (call >= wire_.size()) end_of_call(next);
      if (call < calls) next.start({Argument::in(std::span(message_))});
    }
  }
  void end_of_call(ScheduledCollective& wire) {
    Result<bool> over = false;
    const auto is_over = [&] {
      over = wire.finished();
      return !over.ok() || *over;
    };
    if (!driver_.wait(is_over, limit())) throw Failure({Errc::timeout, "plain messages did not arrive"});
    (void)std::move(over).or_throw();
  }

  Json measure_lines() {
    const TimePoint begin = start_.wait(driver_, kGridLead) + timing_.time / kWarmUp, end = begin + timing_.time;
    publish();
    exchange_until(begin);
    const GridSums before = sums();
    computed_ = Duration(0);
    in_steps_ = Duration(0);
    steps_ = 0;
    const Duration used = process_time();
    const TimePoint from = clock_.now();
    exchange_until(end);
    used_ = process_time() - used;
    const GridSums after = sums();
    const double taken = seconds(clock_.now() - from);
    if (!grid_.stop(driver_, limit())) throw Failure({Errc::timeout, "the lines of a grid did not end"});
    const auto contributions = static_cast<double>(after.contributions - before.contributions);
    return {{"bytes", static_cast<double>(after.bytes - before.bytes) / taken},
            {"additions", (after.additions - before.additions) / taken},
            {"rounds", static_cast<double>(after.rounds - before.rounds) / taken},
            {"computing", seconds(computed_) / taken},
            {"step", seconds(in_steps_) / std::max(1, steps_)},
            {"processor", seconds(used_) / std::max(1, steps_)},
            {"missing", static_cast<double>(after.without - before.without) / std::max(1.0, contributions)}};
  }

  void exchange_until(TimePoint end) {
    while (clock_.now() < end) {
      if (const auto why = grid_.failure()) throw Failure(*why);
      const TimePoint begin = clock_.now();
      if (timing_.pace > Duration(0)) {
        const Duration computes = std::min(timing_.pace, end - begin);
        compute(computes);
        computed_ += computes;
      } else if (!driver_.wait([this] { return grid_.may_take(); }, end)) {
        return;
      }
      exchange();
      if (begin + timing_.pace > end) return;  // the last one was cut short
      in_steps_ += clock_.now() - begin;
      ++steps_;
    }
  }

  void compute(Duration time) const {
    if (!timing_.on_core) return std::this_thread::sleep_for(time);
    for (const Duration end = thread_time() + time; thread_time() < end;) {
    }
  }
  /// As the recipe does at the end of a step.
  void exchange() {
    const int taken = grid_.take([this](const GridSlice& slice) { move(slice); });
    taken == 0 && timing_.pace == Duration(0) ? grid_.publish(nullptr) : publish();
  }
  void publish() {
    Contribution& copy = grid_.acquire();
    std::ranges::copy(model_, copy.as<float>(0).begin());
    grid_.publish(&copy, timing_.pace > Duration(0) ? 1 : 0);
  }
  void move(const GridSlice& slice) {
    const std::span<std::byte> mine = std::as_writable_bytes(std::span(model_).subspan(slice.offset, slice.count));
    const double share = kAlpha / slice.members;
    if (timing_.options.line.update == ElasticUpdate::paper) {
      decay_and_scale(DataType::float32, mine, {slice.sum, mine.size()}, share / (1 - kAlpha), 1 - kAlpha);
    } else if (slice.brought != nullptr) {
      add_scaled(DataType::float32, mine, {slice.sum, mine.size()}, share);
      add_scaled(DataType::float32, mine, {slice.brought, mine.size()}, -kAlpha);
    }
  }

  GridSums sums() const {
    GridSums out;
    for (int dimension = 0; dimension < layout_.dimensions(); ++dimension) {
      const GridCounts counts = grid_.counts(dimension);
      const auto nodes = static_cast<int>(layout_.line_of(context_.rank(), dimension).size());
      out.bytes += counts.bytes_sent;
      out.rounds += counts.applied;
      out.contributions += counts.fresh + counts.null + counts.missing;
      out.without += counts.null + counts.missing;
      out.additions += static_cast<double>(counts.applied) * additions_of_round(nodes, model_.size());
    }
    return out;
  }

  RankContext& context_;
  const GridTiming& timing_;
  const GridLayout layout_;
  const std::vector<int> peers_;
  const SteadyClock clock_;
  Engine engine_;
  CommonStart start_;
  Broadcast agree_;
  const std::uint64_t wire_count_;
  std::deque<ScheduledCollective> wire_;  // calls under way at the same time
  GridAllreduce grid_;
  EngineDriver driver_;
  std::vector<float> message_, model_;
  Duration computed_{0}, in_steps_{0}, used_{0};
  int steps_ = 0;  // whole ones
};

}  // namespace

double roofline_additions(double bytes_each_way_per_second) {
  return 2 * bytes_each_way_per_second / 16;
}

double additions_of_round(int line_nodes, std::uint64_t elements) {
  return static_cast<double>(elements) * (line_nodes - 1) / line_nodes;
}

Result<Reading> measure_grid(int nodes, std::uint64_t elements, const GridTiming& timing) {
  const RankMain main = [&](RankContext& context) {
    TimedNode(context, elements, timing).run();
    return 0;
  };
  const auto reports = reports_of_ranks({.ranks = nodes}, main, timing.hosts.get());
  if (!reports) return reports.error();
  const auto mean_of = [&](const char* name) {
    std::vector<double> values;
    for (const std::string& report : *reports) values.push_back(Json::parse(report).at(name).get<double>());
    return mean(values);
  };
  const double wire = mean_of("wire"), bytes = mean_of("bytes");
  Reading reading{nodes, elements * sizeof(float), std::vector<double>(kGridColumns)};
  reading.values[kWireRate] = wire / 1e6;
  reading.values[kGridRate] = bytes / 1e6;
  reading.values[kWireShare] = 100 * bytes / wire;
  reading.values[kRooflineShare] = 100 * mean_of("additions") / roofline_additions(wire);
  reading.values[kGridRounds] = mean_of("rounds");
  reading.values[kGridComputing] = 100 * mean_of("computing");
  reading.values[kGridMissing] = 100 * mean_of("missing");
  const bool paced = timing.pace > Duration(0);
  reading.values[kGridStep] = paced ? 1e3 * mean_of("step") : std::numeric_limits<double>::quiet_NaN();
  reading.values[kStepProcessor] = paced ? 1e3 * mean_of("processor") : std::numeric_limits<double>::quiet_NaN();
  reading.values[kRoundBytes] = bytes / mean_of("rounds") / 1e6;
  return reading;
}

}  // namespace stretto::command
