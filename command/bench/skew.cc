#include "command/bench/skew.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "command/cli/own_ranks.h"
#include "stretto/base/machine/cores.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/imbalance/pace.h"
#include "stretto/kernel/combine.h"
#include "stretto/membership/job.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr Duration kLead = 2ms;  // from the end of the barrier to the start of the round: all are awake by then
constexpr Duration kExchangeTimeout = 30s;  // for one call

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto to_seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
}

double thread_seconds() {
  return seconds(thread_time());
}

// One rank of the experiment; reports its measurements.
class SkewedRank {
 public:
  SkewedRank(const SkewExperiment& experiment, RankContext& context)
      : experiment_(experiment),
        rank_(context.rank()),
        engine_(context.world().transport(), clock_),
        start_(engine_),
        partial_(engine_, {{DataType::float32, elements()}}, options()),
        driver_(engine_, DriverOptions().share_cores()),
        mine_(experiment.copies ? elements() : 0, 1.0f),
        sum_(mine_.size()) {}

  Json run() {
    // So many rounds without skew that every set of buffers has been touched.
    for (int i = 0; i < partial_.num_contribution_sets(); ++i) round(0ms);
    reset();
    const TimePoint start = synchronize();
    const double cpu_before = cpu_seconds();
    filling_ = 0;
    for (int i = 0; i < experiment_.rounds; ++i) round(experiment_.skew * (rank_ + 1));
    const TimePoint end = synchronize();
    const double cpu = cpu_seconds() - cpu_before - filling_;
    Json report = {{"latency", latency_}, {"ideal", ideal_ms_}, {"arrived", arrived_},
                   {"fresh", fresh_},     {"cpu", cpu},         {"wall", seconds(end - start)}};
    // Rounds from here on take the remaining deposits; they are not measured.
    partial_.finish(driver_, clock_.now() + kExchangeTimeout, [this](const RoundResult& result) { check(result); })
        .or_throw();
    return report;
  }

 private:
  std::uint64_t elements() const { return std::max<std::uint64_t>(1, experiment_.bytes / sizeof(float)); }
  PartialOptions options() const {
    // With a barrier before each round no rank is more than one round behind.
    return {.policy = experiment_.policy,
            .max_lag = 2,
            .order = SumOrder::arrival,
            .seed = experiment_.seed,
            .seats = experiment_.seats};
  }

  // As the library's own collectives do where all ranks copy at once.
  void copy(std::byte* to, const std::byte* from) const {
    const std::uint64_t bytes = elements() * sizeof(float);
    copy_bytes(to, from, bytes, stores_for(bytes * static_cast<std::uint64_t>(experiment_.ranks)));
  }

  void reset() { latency_ = ideal_ms_ = arrived_ = fresh_ = 0; }

  TimePoint synchronize() { return start_.wait(driver_, kLead); }

  void round(Duration late) {
    // A rank that has returned must not take the core from those that have yet to return.
    synchronize();
    Contribution& contribution = partial_.acquire();
    if (!experiment_.copies) {
      const double before = thread_seconds();
      std::ranges::fill(contribution.as<float>(0), 1.0f);
      filling_ += thread_seconds() - before;
    }
    sleep_until(synchronize() + late);

    const TimePoint begin = clock_.now();
    if (experiment_.copies) copy(contribution.bucket(0).data(), reinterpret_cast<const std::byte*>(mine_.data()));
    partial_.deposit(contribution, {});
    partial_.exchange(driver_, begin + kExchangeTimeout, [this](const RoundResult& result) { check(result); })
        .or_throw();
    latency_ += seconds(clock_.now() - begin);
  }

  // Every batch is a vector of ones, so the sum must be their number.
  void check(const RoundResult& result) {
    arrived_ += result.header->arrived.count();
    fresh_ += result.header->fresh.count();
    ideal_ms_ +=
        ideal_wait_ms(result.policy, experiment_.ranks, experiment_.skew, static_cast<int>(result.policy.initiator));
    if (result.empty()) return;
    auto sum = result.as<float>(0);
    if (experiment_.copies) {
      copy(reinterpret_cast<std::byte*>(sum_.data()), reinterpret_cast<const std::byte*>(sum.data()));
      sum = sum_;
    }
    const auto wanted = static_cast<float>(result.header->batches);
    if (sum.front() == wanted && sum.back() == wanted) return;
    throw Failure({Errc::aborted, fmt::format("round {} came out as {} on rank {}; expected {}", result.round,
                                              sum.front(), rank_, wanted)});
  }

  const SkewExperiment& experiment_;
  const int rank_;
  const SteadyClock clock_;
  Engine engine_;
  CommonStart start_;
  PartialAllreduce partial_;
  EngineDriver driver_;
  const std::vector<float> mine_;  // where copies are asked for
  std::vector<float> sum_;
  double latency_ = 0, ideal_ms_ = 0, arrived_ = 0, fresh_ = 0;  // sums over rounds
  double filling_ = 0;
};

}  // namespace

Result<SkewResult> measure_skew(const SkewExperiment& experiment) {
  const RankMain main = [&experiment](RankContext& context) {
    context.report(SkewedRank(experiment, context).run().dump());
    return 0;
  };
  const auto texts = reports_of_ranks({.ranks = experiment.ranks}, main, experiment.hosts.get());
  if (!texts) return texts.error();
  std::vector<Json> reports;
  for (const std::string& text : *texts) reports.push_back(Json::parse(text));
  const Json& first = reports.front();
  SkewResult out;
  // Not a number under a deadline, which JSON has no word for.
  const bool has_ideal = first["ideal"].is_number();
  out.ideal_ms =
      has_ideal ? first["ideal"].get<double>() / experiment.rounds : std::numeric_limits<double>::quiet_NaN();
  out.arrived = first["arrived"].get<double>() / experiment.rounds;
  out.fresh = first["fresh"].get<double>() / experiment.rounds;
  for (const Json& report : reports) {
    out.mean_ms += 1e3 * report["latency"].get<double>() / experiment.ranks / experiment.rounds;
    out.cores += report["cpu"].get<double>() / first["wall"].get<double>();
  }
  return out;
}

Result<std::vector<SkewResult>> measure_peer_skew(const Peer& peer, const SkewExperiment& experiment,
                                                  std::span<const std::uint64_t> sizes) {
  const Duration round = experiment.skew * (experiment.ranks + 1) + 100ms;
  const PeerJob job{"skew",
                    experiment.ranks,
                    {std::to_string(experiment.rounds), std::to_string(experiment.skew.count())},
                    kPeerStart + 4 * round * experiment.rounds * static_cast<int>(sizes.size()),
                    experiment.hosts};
  const auto readings = measure_peer(peer, job, sizes, 2);
  if (!readings) return readings.error();
  const double ideal_ms = ideal_wait_ms(Policy::full(), experiment.ranks, experiment.skew, 0);
  const auto all = static_cast<double>(experiment.ranks);
  std::vector<SkewResult> out;
  for (const Reading& reading : *readings) {
    out.push_back(
        {.mean_ms = reading.values[0], .ideal_ms = ideal_ms, .arrived = all, .fresh = all, .cores = reading.values[1]});
  }
  return out;
}

std::string name_of_ours(const SkewExperiment& experiment) {
  const std::string how = experiment.seats == 0   ? ""
                          : experiment.seats == 1 ? "-messages"
                                                  : fmt::format("-seats-{}", experiment.seats);
  return fmt::format("{}{}{}", kOurs, how, experiment.copies ? "-plain" : "");
}

std::vector<std::string> activation_names() {
  return {"full", "solo", "majority", "quorum:", "deadline:"};
}

std::vector<Policy> parse_activations(const std::string& list, int ranks) {
  std::vector<Policy> policies;
  for (const std::string& name : split_policies(list)) {
    try {
      policies.push_back(Policy::parse(name, ranks));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--activations {}: {}", name, error.what()));
    }
  }
  return policies;
}

double ideal_wait_ms(const Policy& policy, int ranks, Duration skew, int initiator) {
  int starter = 0;  // the rank that starts the round, counted from 1: comes at starter · skew
  switch (policy.kind) {
    case Policy::Kind::solo: starter = 1; break;
    case Policy::Kind::majority: starter = initiator + 1; break;
    case Policy::Kind::quorum: starter = static_cast<int>(policy.quorum); break;
    case Policy::Kind::full: starter = ranks; break;
    case Policy::Kind::deadline: return std::numeric_limits<double>::quiet_NaN();
  }
  return 1e3 * seconds(skew) * starter * (starter - 1) / 2 / ranks;
}

}  // namespace stretto::command
