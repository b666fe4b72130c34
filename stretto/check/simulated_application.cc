#include "stretto/check/simulated_application.h"

#include <utility>

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 1000;
constexpr std::uint64_t kSharedBytes = 64u << 20;
constexpr std::uint64_t kSlowestStep = 100;  // nanoseconds, of a thread that is not asleep
constexpr double kLate = 0.2;                // probability that a thread does not run at once when it is woken

}  // namespace

SearchedJob::SearchedJob(const Machines& machines, std::uint64_t seed, JobFinding& finding, bool stepwise)
    : machines(machines),
      seed(seed),
      finding(finding),
      stepwise(stepwise),
      cluster(machines.ranks(), machines.network, seed) {
  cluster.place(machines.members);
  if (machines.shares_memory()) cluster.share_memory(kSharedBytes);
  for (const auto& [src, dst, factor] : machines.slow_links) cluster.slow_link(src, dst, factor);
}

void SearchedJob::run(const Hooks& hooks) {
  bool moved = false;
  while (!finding.violation && cluster.run_next()) {
    if (cluster.events() > hooks.most_events) finding.violated("the run does not end");
    hooks.transition();
    const bool moves = cluster.busy() || stepping > 0;
    if (moved && !moves) hooks.quiet();
    moved = moves;
  }
  finding.messages = cluster.messages();
}

SimulatedApplication::SimulatedApplication(SearchedJob& job, int rank, Hooks hooks)
    : job_(job),
      rank_(rank),
      hooks_(std::move(hooks)),
      random_(job.seed, kStream + static_cast<std::uint64_t>(rank)),
      engine_(job.cluster.transport(rank), job.cluster.clock()) {
  job.cluster.on_wake(rank, [this] { wake(); });
}

void SimulatedApplication::compute(std::function<void()> then) {
  const Machines& m = job_.machines;
  double factor = m.slowness[static_cast<std::size_t>(rank_)] * (1 + m.spread * (2 * random_.uniform() - 1));
  if (random_.chance(m.stall)) factor *= static_cast<double>(random_.between(10, 50));
  if (random_.chance(m.stop)) {
    job_.cluster.stop(rank_, job_.cluster.now() + Duration(m.compute.count() * random_.between(1, 20)));
  }
  job_.cluster.after(from_seconds(seconds(m.compute) * factor), rank_, std::move(then));
}

void SimulatedApplication::soon(std::function<void()> then, std::uint64_t nanoseconds) {
  job_.cluster.after(Duration(static_cast<std::int64_t>(random_.below(nanoseconds))), rank_, std::move(then));
}

void SimulatedApplication::poll() {
  look();
  if (job_.stepwise) {
    if (hooks_.waits()) look_again();
    return note_rings();
  }
  while (step_all()) look();
  look();  // a step that found nothing to do may have retired a round
}

void SimulatedApplication::step() {
  if (job_.stepwise) return note_rings();
  step_all();
}

void SimulatedApplication::crash() {
  job_.cluster.crash(rank_, job_.machines.network.latency);
}

void SimulatedApplication::wake() {
  if (job_.stepwise) return look_again();
  step_all();
  if (!hooks_.waits()) return;
  // A thread that is woken need not run at once: more than one round passes.
  if (random_.chance(kLate)) return soon([this] { poll(); }, static_cast<std::uint64_t>(job_.machines.latest.count()));
  poll();
}

void SimulatedApplication::look() {
  if (hooks_.waits()) hooks_.look();
}

bool SimulatedApplication::step_all() {
  bool did = false;
  while (engine_.step()) {
    did = true;
    hooks_.stepped();
  }
  hooks_.stepped();
  job_.cluster.wake_by(rank_, engine_.step_by());
  return did;
}

// Like a rank that sleeps, an engine that is stepwise takes no step while there was nothing to do and its doorbell has
// not rung since that look began.
void SimulatedApplication::look_again() {
  rung_ = true;
  schedule_step();
}

void SimulatedApplication::schedule_step() {
  if (std::exchange(stepping_, true)) return;
  ++job_.stepping;
  const bool asleep = random_.chance(job_.machines.asleep);
  soon([this] { step_once(); }, asleep ? static_cast<std::uint64_t>(job_.machines.latest.count()) : kSlowestStep);
}

void SimulatedApplication::note_rings() {
  if (std::exchange(rings_seen_, engine_.doorbell().rings()) != engine_.doorbell().rings()) look_again();
}

void SimulatedApplication::step_once() {
  stepping_ = false;
  --job_.stepping;
  if (!std::exchange(looking_, true)) rung_ = false;
  const bool more = engine_.step();
  hooks_.stepped();
  look();
  note_rings();
  looking_ = more;
  if (more || rung_) return schedule_step();
  job_.cluster.wake_by(rank_, engine_.step_by());
}

}  // namespace stretto
