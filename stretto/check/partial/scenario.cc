#include "stretto/check/partial/scenario.h"

#include <algorithm>

#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr std::uint64_t kScenarios = 0x7363656e6172696f;
constexpr double kLosesHost = 0.2;  // probability, of a job on several

Policy draw_policy(Random& random, const JobLimits& limits, int ranks, Duration compute) {
  const Policy::Kind kinds[] = {Policy::Kind::solo,   Policy::Kind::solo,     Policy::Kind::solo,
                                Policy::Kind::solo,   Policy::Kind::majority, Policy::Kind::quorum,
                                Policy::Kind::quorum, Policy::Kind::deadline, Policy::Kind::full};
  const Policy::Kind kind = limits.policy.value_or(kinds[random.below(std::size(kinds))]);
  const int quorum = static_cast<int>(random.between(1, ranks));
  switch (kind) {
    case Policy::Kind::full: return Policy::full();
    case Policy::Kind::solo: return Policy::solo();
    case Policy::Kind::majority: return Policy::majority();
    case Policy::Kind::quorum: return Policy::at_least(quorum);
    case Policy::Kind::deadline: break;
  }
  if (random.chance(0.3)) return Policy::adaptive_deadline(quorum);
  return Policy::deadline(quorum, from_seconds(seconds(compute) * 2 * random.uniform()));
}

}  // namespace

Scenario draw_scenario(std::uint64_t seed, const JobLimits& limits) {
  Random random(seed, kScenarios);
  Scenario s;
  s.seed = seed;
  s.ranks = limits.ranks > 0 ? limits.ranks : static_cast<int>(random.log_uniform(1, 33));
  const auto num_buckets = random.chance(0.6) ? 1 : random.between(2, 4);
  for (int i = 0; i < num_buckets; ++i) s.buckets.push_back({DataType::int64, random.log_uniform(1, 4096)});
  s.machines = draw_machines(random, s.ranks);
  s.options.policy = draw_policy(random, limits, s.ranks, s.machines.compute);
  s.options.max_lag = static_cast<int>(random.chance(0.1) ? random.between(7, 16) : random.between(1, 6));
  s.options.order = random.chance(0.5) ? SumOrder::fixed : SumOrder::arrival;
  s.options.seed = random.bits();
  const auto mean_steps = random.log_uniform(3, 60);
  for (int rank = 0; rank < s.ranks; ++rank) {
    s.steps.push_back(random.chance(0.5) ? mean_steps : random.below(2 * mean_steps + 1));
  }
  if (random.chance(0.4)) s.options.full_every = random.log_uniform(1, 20) * static_cast<std::uint64_t>(s.ranks);
  s.bucketwise = s.options.policy.kind == Policy::Kind::full && random.chance(0.5);
  if (s.ranks > 1 && random.chance(0.02)) {
    s.crashed_rank = static_cast<int>(random.below(static_cast<std::uint64_t>(s.ranks)));
    s.crash_step = random.below(s.steps[static_cast<std::size_t>(s.crashed_rank)] + 1);
  }
  if (s.options.policy.kind != Policy::Kind::full && random.chance(0.1)) {
    s.options.delivery = Delivery::latest;
    s.machines.latest *= 20;  // more than one round passes, of which only the newest result is kept
  }
  s.options.piece_bytes = 64 * random.log_uniform(1, 64);
  const bool can_meet = s.options.delivery == Delivery::every;
  s.options.seats = draw_over(random, can_meet ? limits.over : Over::messages, s.machines);
  // The order of arrival has no bits to compare.
  if (random.chance(0.5) && s.options.order == SumOrder::fixed) {
    for (auto& bucket : s.buckets) bucket.type = DataType::float32;
  }
  if (random.chance(0.3)) s.pass_probability = random.chance(0.1) ? 1 : 0.5 * random.uniform();
  if (random.chance(0.1)) s.passing_rank = static_cast<int>(random.below(static_cast<std::uint64_t>(s.ranks)));
  if (s.machines.members.hosts() > 1 && random.chance(kLosesHost)) {
    s.crashed_rank = static_cast<int>(random.below(static_cast<std::uint64_t>(s.ranks)));
    s.crash_step = random.below(s.steps[static_cast<std::size_t>(s.crashed_rank)] + 1);
    s.crashes_with_host = true;
  }
  return s;
}

bool Scenario::crashes(int rank) const {
  const Members& members = machines.members;
  return crashed_rank >= 0 &&
         (rank == crashed_rank || (crashes_with_host && members.host_of(rank) == members.host_of(crashed_rank)));
}

std::string Scenario::to_string() const {
  std::string sizes;
  for (const auto& bucket : buckets) sizes += text(sizes.empty() ? "" : "+", bucket.count);
  return text(
      "seed ", seed, ": ", ranks, " ranks, ", options.policy.to_string(), ", max_lag ", options.max_lag, ", elements ",
      sizes, buckets[0].type == DataType::float32 ? " of float32" : " of int64", ", full every ", options.full_every,
      ", order ", options.order == SumOrder::fixed ? "fixed" : "arrival", text_of_boards(machines, options.seats),
      shares_memory() ? text(" in pieces of ", options.piece_bytes, " bytes") : "",
      bucketwise ? ", bucket by bucket" : "",
      pass_probability > 0 ? text(", a batch is dropped with ", pass_probability) : std::string(),
      passing_rank ? text(", rank ", *passing_rank, " drops all") : std::string(),
      options.delivery == Delivery::latest ? ", delivery latest" : "",
      crashed_rank >= 0 ? text(", rank ", crashed_rank, crashes_with_host ? " crashes with its host" : " crashes")
                        : std::string());
}

}  // namespace stretto
