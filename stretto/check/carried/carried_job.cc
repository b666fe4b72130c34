#include "stretto/check/carried/carried_job.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/check/harness/searches.h"

namespace stretto {
namespace {

constexpr std::uint64_t kCarriedStream = 0x63617272696564;
constexpr std::uint64_t kMostEvents = 5'000'000;  // of a world

}  // namespace

CarriedJob::CarriedJob(std::uint64_t seed, const JobLimits& limits, JobFinding& finding)
    : limits_(limits), finding_(finding), random_(seed, kCarriedStream) {
  ranks_ = limits.ranks > 0 ? limits.ranks : static_cast<int>(random_.log_uniform(2, 12));
  most_ = ranks_ + 3;
  changes_ = static_cast<int>(random_.between(1, 5));
  mean_steps_ = random_.log_uniform(3, 60);
  const Scenario first = draw_scenario(random_.bits(), {.ranks = ranks_, .policy = limits.policy});
  policy_ = first.options.policy.kind;
  options_ = {.full_every = first.options.full_every, .max_lag = first.options.max_lag, .members_change = true};
  const std::uint64_t told = 2 * static_cast<std::uint64_t>(most_);
  buckets_.push_back({DataType::int64, told + random_.log_uniform(1, 300)});
  if (random_.chance(0.4)) buckets_.push_back({DataType::int64, random_.log_uniform(1, 500)});
  oracle_ = std::make_unique<CarriedOracle>(buckets_, most_, options_.max_lag, seed, finding);
  finding.job = text("seed ", seed, ": ", ranks_, " ranks, ", first.options.policy.to_string(), ", max_lag ",
                     options_.max_lag, ", full every ", options_.full_every, ", ", changes_, " changes");
}

Duration CarriedJob::draw_delay() {
  const auto compute = static_cast<std::uint64_t>(world().scenario.machines.compute.count());
  return Duration(static_cast<std::int64_t>(random_.chance(0.5) ? random_.below(3000) : random_.below(8 * compute)));
}

std::vector<CarriedMember*> CarriedJob::live() const {
  std::vector<CarriedMember*> out;
  for (CarriedMember* member : worlds_.back()->members) {
    if (!member->lost()) out.push_back(member);
  }
  return out;
}

/// The machines, the seats and the policy are drawn anew, as for the members of a view.
Scenario CarriedJob::draw_world(int ranks, Round before) {
  Scenario s = draw_scenario(random_.bits(), {.ranks = ranks, .over = limits_.over, .policy = policy_});
  s.buckets = buckets_;
  PartialOptions options = options_;
  options.policy = s.options.policy;
  options.order = s.options.order;
  options.seed = s.options.seed;
  options.seats = s.options.seats;
  options.piece_bytes = s.options.piece_bytes;
  options.rounds_before = before;
  options.batches_before = oracle_->batches_before(before);
  s.options = options;
  return s;
}

void CarriedJob::enter_world(const std::vector<CarriedMember*>& members, Round before) {
  worlds_.push_back(std::make_unique<World>(draw_world(static_cast<int>(members.size()), before), finding_));
  World& now = world();
  now.members = members;
  if (now.scenario.shares_memory()) ++finding_.reached[now.scenario.machines.over == Over::board ? 10 : 11];
  finding_.job += text("; ", members.size(), " ranks after ", before, " rounds",
                       text_of_boards(now.scenario.machines, now.scenario.options.seats));
  std::vector<int> seats;
  for (const CarriedMember* member : members) seats.push_back(member->id);
  oracle_->begin_world(now.scenario.options, seats, before);
  changing_ = decided_ = all_begun_ = false;
  bool carried = false;
  for (std::size_t seat = 0; seat < members.size(); ++seat) {
    members[seat]->enter(now.job, static_cast<int>(seat), buckets_, now.scenario.options);
    carried |= members[seat]->carried() > 0;
  }
  if (worlds_.size() > 1) finding_.reached[6] += carried;
  // The real ones meet here: none begins before all have put in what they carry.
  for (std::size_t seat = 0; seat < members.size(); ++seat) {
    now.job.cluster.after(draw_delay(), static_cast<int>(seat), [this, member = members[seat]] { begin(*member); });
  }
  if (changes_ == 0) return;
  --changes_;
  const auto compute = static_cast<std::uint64_t>(now.scenario.machines.compute.count());
  const std::uint64_t delay = random_.chance(0.3) ? random_.below(4000) : random_.log_uniform(1000, 30 * compute);
  now.job.cluster.after(Duration(static_cast<std::int64_t>(delay)), 0, [this] { change(); });
}

void CarriedJob::begin(CarriedMember& member) {
  if (member.lost() || member.frozen() || member.begun()) return;
  std::vector<CarriedMember*> holders = live();
  std::erase(holders, &member);
  if (!member.begin(holders)) return;  // who holds what it lacks is lost: the next world helps
  if (changing_ || !std::ranges::all_of(world().members, [](const auto* each) { return each->begun(); })) return;
  all_begun_ = true;
  for (const auto& each : members_) each->all_begun(world().job);
  worlds_.erase(worlds_.begin(), worlds_.end() - 1);
}

void CarriedJob::change() {
  std::vector<CarriedMember*> members = live();
  if (std::ranges::all_of(members, [](const auto* member) { return member->done(); })) return;
  for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[random_.below(i)]);
  // One that has the model survives.
  const auto survivor = std::ranges::find_if(members, [](const auto* member) { return member->has_model(); });
  STRETTO_CHECK(survivor != members.end(), "nobody has the model");
  std::iter_swap(members.begin(), survivor);
  changing_ = true;
  ++finding_.reached[0];
  finding_.reached[7] += !all_begun_;
  const double loss = random_.chance(0.2) ? 0 : random_.chance(0.3) ? 0.75 : 0.35;
  for (std::size_t i = 0; i < members.size(); ++i) {
    CarriedMember* member = members[i];
    const auto seat = static_cast<int>(std::ranges::find(world().members, member) - world().members.begin());
    const bool dies = i > 0 && random_.chance(loss);
    if (dies && random_.chance(0.25)) {
      member->exclude();
      ++finding_.reached[2];
      continue;
    }
    if (dies) {
      world().job.cluster.after(draw_delay(), seat, [this, member] { lose(*member); });
      if (random_.chance(0.5)) continue;
    }
    world().job.cluster.after(draw_delay(), seat, [this, member] {
      if (member->lost()) return;
      member->freeze();
      decide_where_possible();
    });
  }
  decide_where_possible();
}

void CarriedJob::lose(CarriedMember& member) {
  member.crash();
  ++finding_.reached[1];
  if (decided_) ++finding_.reached[9];
  decided_ = false;
  decide_where_possible();
}

/// Each member that is asked is frozen, or lost meanwhile.
void CarriedJob::decide_where_possible() {
  const std::vector<CarriedMember*> asked = live();
  if (!changing_ || !std::ranges::all_of(asked, [](const auto* member) { return member->frozen(); })) return;
  Round most = 0, least = ~Round{0};
  for (CarriedMember* member : asked) {
    if (!member->has_model()) continue;
    most = std::max(most, member->held());
    least = std::min(least, member->held());
  }
  before_ = defect(Defect::carried_least_decides) ? least : most;
  decided_ = true;
  for (CarriedMember* member : world().members) {
    if (member->lost()) member->ignore();
  }
}

void CarriedJob::run_world() {
  SimulatedCluster& cluster = world().job.cluster;
  const auto over = [&] {
    const auto members = live();
    if (changing_) {
      return decided_ && std::ranges::all_of(members, [](const auto* each) { return each->waits_between(); });
    }
    return std::ranges::all_of(members, [](const auto* each) { return each->done(); });
  };
  while (!finding_.violation && !over() && cluster.run_next()) {
    if (cluster.events() > kMostEvents) oracle_->violated("the run does not end");
  }
  finding_.messages += cluster.messages();
  if (finding_.violation || over()) return;
  std::string states;
  for (CarriedMember* member : world().members) states += text("; ", member->to_string());
  oracle_->violated(text("nothing moves", states));
}

void CarriedJob::run() {
  std::vector<CarriedMember*> members;
  const auto add = [&](bool joins) {
    const int id = static_cast<int>(members_.size());
    members_.push_back(std::make_unique<CarriedMember>(*oracle_, id, random_.below(2 * mean_steps_), joins));
    members.push_back(members_.back().get());
  };
  for (int rank = 0; rank < ranks_; ++rank) add(false);
  Round before = 0;
  for (;;) {
    enter_world(members, before);
    run_world();
    if (finding_.violation) break;
    members = live();
    if (!changing_) break;
    const Round was = world().scenario.options.rounds_before;
    before = before_;
    Round least = before;
    for (CarriedMember* member : members) {
      if (member->has_model()) least = std::min(least, member->held());
    }
    finding_.reached[4] += least < before;
    finding_.reached[5] += least + 1 < before;
    finding_.reached[8] += before < was;
    while (static_cast<int>(members_.size()) < most_ && random_.chance(0.15)) {
      add(true);
      ++finding_.reached[3];
    }
    for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[random_.below(i)]);
  }
  finding_.reached[12] += oracle_->full_rounds();
  if (finding_.violation) return;
  std::vector<int> ids;
  for (const CarriedMember* member : members) ids.push_back(member->id);
  oracle_->ended(ids);
}

void run_carried_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  CarriedJob job(seed, limits, finding);
  try {
    job.run();
  } catch (const UsageError& refused) {
    finding.violated(text("refused: ", refused.what()));
  }
}

}  // namespace stretto
