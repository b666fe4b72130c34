#include "stretto/check/harness/simulated_application.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

/// `ranks` on several hosts, in blocks of unequal size or dealt out in turn, or each anywhere; or all on one, every
/// second time. Fewer hosts than ranks, so that some board has several seats. Requires: ranks > 1.
Members draw_hosts(Random& random, int ranks) {
  if (ranks < 3 || random.chance(0.5)) return Members(ranks);
  const int hosts = static_cast<int>(random.between(2, ranks - 1));
  const std::uint64_t how = random.below(3);
  std::vector<int> host_of(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const int anywhere = static_cast<int>(random.below(static_cast<std::uint64_t>(hosts)));
    host_of[static_cast<std::size_t>(rank)] = how == 0 ? rank * hosts / ranks : how == 1 ? rank % hosts : anywhere;
  }
  return Members(host_of);
}

constexpr std::uint64_t kStream = 1000;
constexpr double kSlowHosts = 0.3;  // probability, of a job on several
constexpr std::uint64_t kSharedBytes = 64u << 20;
constexpr std::uint64_t kSlowestStep = 100;  // nanoseconds, of a thread that is not asleep
constexpr int kSilences = 10;                // of a thread that is late, until a host is lost that is silent
constexpr double kLate = 0.2;                // probability that a thread does not run at once when it is woken

}  // namespace

int draw_ranks(Random& random) {
  if (random.chance(0.03)) return random.chance(0.5) ? 16 : 33;
  return static_cast<int>(random.between(2, 8));
}

Machines draw_machines(Random& random, int ranks) {
  Machines m{.members = Members(ranks)};
  m.network.latency = Duration(static_cast<std::int64_t>(random.log_uniform(100, 50'000)));
  m.network.overhead = Duration(static_cast<std::int64_t>(random.below(500)));
  if (random.chance(0.8)) m.network.jitter = Duration(m.network.latency.count() * random.between(0, 16));
  m.network.bytes_per_second = 1e9 * static_cast<double>(random.log_uniform(1, 50));
  if (random.chance(0.5)) m.network.pieces = static_cast<int>(random.between(2, 4));
  if (random.chance(0.2)) m.network.eager_bytes = 1 << 20;
  for (int i = ranks > 1 && random.chance(0.7) ? 1 + ranks / 4 : 0; i > 0; --i) {
    const int src = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    const int dst = (src + static_cast<int>(random.between(1, ranks - 1))) % ranks;
    m.slow_links.push_back({src, dst, static_cast<double>(random.log_uniform(2, 100))});
  }
  m.compute = Duration(static_cast<std::int64_t>(random.log_uniform(500, 200'000)));
  for (int rank = 0; rank < ranks; ++rank) {
    m.slowness.push_back(random.chance(0.25) ? static_cast<double>(random.log_uniform(2, 30)) : 1);
  }
  m.spread = random.uniform();
  if (random.chance(0.2)) m.stall = 0.1 * random.uniform();
  if (random.chance(0.2)) m.stop = 0.1 * random.uniform();
  return m;
}

/// Slows all links between two hosts, or all of one host.
void slow_hosts(Random& random, Machines& machines) {
  const Members& members = machines.members;
  const auto draw_host = [&] { return static_cast<int>(random.below(static_cast<std::uint64_t>(members.hosts()))); };
  const int one = draw_host(), other = random.chance(0.5) ? draw_host() : -1;
  const auto factor = static_cast<double>(random.log_uniform(2, 100));
  for (int src = 0; src < members.size(); ++src) {
    for (int dst = 0; dst < members.size(); ++dst) {
      const int from = members.host_of(src), to = members.host_of(dst);
      if (from == to || (from != one && to != one)) continue;
      if (other == -1 || from == other || to == other) machines.slow_links.push_back({src, dst, factor});
    }
  }
}

int draw_over(Random& random, std::optional<Over> over, Machines& machines) {
  const int ranks = machines.ranks();
  const Over drawn = random.chance(0.5) ? Over::messages : random.chance(0.5) ? Over::boards : Over::board;
  machines.over = ranks == 1 ? Over::messages : over.value_or(drawn);
  if (machines.over == Over::boards && ranks < 3) machines.over = Over::board;
  if (machines.over != Over::boards) return machines.over == Over::board ? 0 : 1;
  machines.members = draw_hosts(random, ranks);
  if (machines.members.hosts() > 1 && random.chance(kSlowHosts)) slow_hosts(random, machines);
  if (machines.members.hosts() > 1 && random.chance(0.5)) return 0;
  return static_cast<int>(random.between(2, ranks - 1));
}

std::string text_of_boards(const Machines& machines, int seats) {
  if (machines.over != Over::boards) return machines.over == Over::board ? ", on a board" : "";
  const Members& members = machines.members;
  std::string out = text(", on boards of ", seats, " ranks on ");
  if (members.hosts() == 1) return out + "one host";
  out += text(members.hosts(), " hosts:");
  for (int host = 0; host < members.hosts(); ++host) {
    for (const int rank : members.on(host)) out += text(rank == members.on(host).front() ? " " : "+", rank);
  }
  return out;
}

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

void SimulatedApplication::crash(bool with_host) {
  const Machines& machines = job_.machines;
  if (!with_host) return job_.cluster.crash(rank_, machines.network.latency);
  for (const int rank : machines.members.on(machines.members.host_of(rank_))) {
    job_.cluster.crash(rank, kSilences * machines.latest);
  }
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
