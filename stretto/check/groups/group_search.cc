#include "stretto/check/groups/group_search.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/pages.h"
#include "stretto/base/random.h"
#include "stretto/check/groups/group_oracle.h"
#include "stretto/collective/group_allreduce_probe.h"
#include "stretto/simulate/cluster.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x67726f757073;
constexpr std::uint64_t kSharedBytes = 64u << 20;
constexpr std::uint64_t kMaxEvents = 2'000'000;  // a run that takes longer goes round in circles

struct Job {
  GroupJob what;
  NetworkOptions network;
  Duration compute{0};
  std::vector<double> slowness;
  double spread = 0;
  double stall = 0;         // probability that a batch takes much longer
  double asleep = 0.005;    // on a board: probability that a rank stands still between two steps
  std::uint64_t again = 0;  // on a board: a rank publishes each model up to so many times more
  std::uint64_t seed = 0;
};

Field field_at(std::span<const std::byte> bytes, std::size_t i) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + 8 * i, 8);
  return Field(value);
}

template <class Number>
void for_numbers(std::span<std::byte> bytes, Number number) {
  for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
    const std::uint64_t value = number(i).value();
    std::memcpy(bytes.data() + 8 * i, &value, 8);
  }
}

/// The weights are numbers of a prime field.
constexpr ModelMath kFieldMath{
    .mean =
        [](DataType, std::span<std::byte> model, std::span<const std::byte> sum, double members) {
          const Field n(static_cast<std::uint64_t>(members));
          for_numbers(model, [&](std::size_t i) { return field_at(sum, i) / n; });
        },
    .put_on =
        [](DataType, std::span<std::byte> model, std::span<const std::byte> stands, std::span<const std::byte> base) {
          for_numbers(model,
                      [&](std::size_t i) { return field_at(stands, i) + (field_at(model, i) - field_at(base, i)); });
        }};

constexpr std::uint64_t kSlowestWake = 100'000;  // nanoseconds
constexpr std::uint64_t kSlowestStep = 100;

Job draw_job(std::uint64_t seed, const JobLimits& limits) {
  Random random(seed, kStream);
  Job job{.seed = seed};
  GroupJob& what = job.what;
  what.ranks = random.chance(0.03) ? (random.chance(0.5) ? 16 : 33) : static_cast<int>(random.between(2, 8));
  if (limits.ranks != 0) what.ranks = limits.ranks;
  GroupOptions& options = what.options;
  options.group_size = what.ranks == 1 ? 1 : static_cast<int>(random.between(2, what.ranks));
  if (random.chance(0.15)) options.order = GroupOrder::fixed;
  options.full_every = static_cast<Round>(random.between(1, 8));
  if (random.chance(0.4)) options.quorum = static_cast<int>(random.between(1, what.ranks));
  if (random.chance(0.3)) options.late = LateRank::jumps;
  if (random.chance(0.3)) options.late_sum = LateSum::own;
  what.stale = random.chance(0.5) ? StaleRule::mix : StaleRule::carry;
  options.keep_own = what.stale == StaleRule::carry;
  what.publish_after = random.chance(0.5);
  what.length = random.log_uniform(2, random.chance(0.05) ? 12'000 : 40);  // beyond 8,192 in the way of large buckets
  const std::uint64_t most = random.log_uniform(1, 40);
  for (int rank = 0; rank < what.ranks; ++rank) {
    what.batches.push_back(random.chance(0.5) ? most : random.below(most + 1));
    job.slowness.push_back(random.chance(0.25) ? static_cast<double>(random.log_uniform(2, 30)) : 1);
  }
  job.network.latency = Duration(static_cast<std::int64_t>(random.log_uniform(100, 20'000)));
  job.network.jitter = Duration(job.network.latency.count() * random.between(0, 16));
  job.network.pieces = static_cast<int>(random.between(1, 4));
  job.compute = Duration(static_cast<std::int64_t>(random.log_uniform(500, 200'000)));
  job.spread = random.uniform();
  if (random.chance(0.3)) job.stall = 0.05;
  const bool shares = random.chance(0.5);
  options.piece_bytes = kCacheLine * static_cast<std::uint64_t>(random.between(1, 4));
  // A rank that publishes in a loop beside ranks that are put to sleep while they read its models.
  if (random.chance(0.3)) {
    job.asleep = 0.1;
    job.again = random.between(1, 8);
  }
  // Drawn last, so that the rest of a seed's job stays what it was.
  const bool several = random.chance(0.5);
  what.over = limits.over.value_or(!shares ? Over::messages : several ? Over::boards : Over::board);
  if (what.over == Over::boards && what.ranks < 3) what.over = Over::board;
  if (what.ranks == 1) what.over = Over::messages;
  const int between = static_cast<int>(random.between(2, std::max(2, what.ranks - 1)));
  options.seats = what.over == Over::messages ? 1 : what.over == Over::board ? 0 : between;
  if (what.shares_memory()) {
    options.late_sum = LateSum::newest;  // sums of the own iteration go by messages
    what.length = std::min<std::uint64_t>(what.length, 100);
  }
  if (random.chance(0.4)) {
    what.stale = StaleRule::moves;
    what.publish_after = false;
    options.moves = &kFieldMath;
    options.keep_own = false;
    options.late_sum = LateSum::newest;
    job.again = 0;
  }
  what.members = what.over == Over::boards ? draw_hosts(random, what.ranks) : Members(what.ranks);
  if (what.members.hosts() > 1 && random.chance(0.5)) options.seats = 0;
  return job;
}

/// One rank: the real engine and the real collective, and an application whose every step is an event.
class Actor final : private GroupObserver {
 public:
  Actor(const Job& job, SimulatedCluster& cluster, GroupOracle& oracle, int rank)
      : job_(job),
        cluster_(cluster),
        oracle_(oracle),
        models_(job.what),
        rank_(rank),
        random_(job.seed, 5000 + static_cast<std::uint64_t>(rank)),
        engine_(cluster.transport(rank), cluster.clock()),
        collective_(engine_, models_.buckets(), job.what.options),
        probe_(collective_) {
    probe_.observe(*this);
    cluster.on_wake(rank, [this] { job_.what.shares_memory() ? look_again() : wake(); });
  }

  void start() {
    if (!defect(Defect::group_no_initial)) publish_at_once();
    next_batch();
  }

  bool done() const { return state_ == State::done; }
  /// Its engine is about to take a step.
  bool stepping() const { return stepping_; }
  Field model() const { return weight_; }
  std::uint64_t steps() const { return step_; }
  std::uint64_t jumps() const { return jumps_; }
  ProtocolState protocol() const { return probe_.state(); }
  Field stands() const { return probe_.versions() == 0 ? Field() : field_at(probe_.stands(), 0); }

 private:
  enum class State { computing, publishing, exchanging, finishing, done };

  void joined(Round round, int rank, std::uint64_t version) override { oracle_.joined(rank, round, version); }
  void completed(int rank, const StandingSum& sum) override { oracle_.completed(rank, sum); }
  void settled() override { oracle_.settled(rank_, collective_.next(), last_step_); }
  bool moves() const { return job_.what.options.moves != nullptr; }

  void next_batch() {
    if (step_ == job_.what.batches[static_cast<std::size_t>(rank_)]) {
      if (defect(Defect::group_stops)) {
        state_ = State::done;
        return;
      }
      state_ = State::finishing;
      collective_.drain();
      if (!moves()) publish_at_once();
      oracle_.drained(rank_);
      return poll_application();
    }
    state_ = State::computing;
    double factor = job_.slowness[static_cast<std::size_t>(rank_)] * (1 + job_.spread * (2 * random_.uniform() - 1));
    if (random_.chance(job_.stall)) factor *= static_cast<double>(random_.between(10, 50));
    cluster_.after(from_seconds(seconds(job_.compute) * factor), rank_, [this] { step_done(); });
  }

  void step_done() {
    last_step_ = Field(random_bits(job_.seed, static_cast<std::uint64_t>(rank_), ++step_));
    weight_ = weight_ + last_step_;
    state_ = State::publishing;
    begin_model(job_.what.shares_memory() ? random_.below(job_.again + 1) : 0);
  }

  /// The model is written in two halves, between which anything may happen, and published; `again`: and so many times
  /// more.
  void begin_model(std::uint64_t again) {
    if (!probe_.may_acquire()) {
      return cluster_.after(short_while(), rank_, [this, again] { begin_model(again); });
    }
    writing_ = &collective_.acquire();
    models_.write(*writing_, rank_, probe_.versions() + 1, weight_, 0);
    cluster_.after(short_while(), rank_, [this, again] {
      models_.write(*writing_, rank_, probe_.versions() + 1, weight_, 1);
      publish();
      note_rings();
      if (again > 0) return begin_model(again - 1);
      state_ = State::exchanging;
      poll_application();
    });
  }

  Duration short_while() { return Duration(static_cast<std::int64_t>(random_.below(job_.again > 0 ? 300 : 2000))); }

  void publish_at_once() {
    writing_ = &collective_.acquire();
    for (const int part : {0, 1}) models_.write(*writing_, rank_, probe_.versions() + 1, weight_, part);
    publish();
  }

  void publish() {
    if (!moves() || probe_.versions() == 0) {
      oracle_.published(rank_, probe_.versions() + 1, collective_.next(), weight_);
    }
    collective_.publish(*std::exchange(writing_, nullptr), {.batches = 1, .samples = 1});
  }

  void apply(const GroupResult& result) {
    const Field before = weight_;
    const Field sum = models_.read(result.sum).weight;
    const Field n(static_cast<std::uint64_t>(result.members));
    switch (model_move(result.fresh, state_ == State::finishing, job_.what.stale)) {
      case ModelMove::average: weight_ = sum / n; break;
      case ModelMove::mix: weight_ = (sum + before) / (n + Field(1)); break;
      case ModelMove::carry:
        weight_ = sum / n + (before - Field(static_cast<std::uint64_t>(
                                          reinterpret_cast<const std::int64_t*>(result.own->bucket(0).data())[0])));
        break;
    }
    oracle_.used(rank_, result, before, weight_);
    if (moves()) return;
    if (job_.what.publish_after || result.full || state_ == State::finishing) publish_at_once();
  }

  void poll_application() {
    if (job_.what.shares_memory()) {
      look();
      return look_again();
    }
    look();
    while (step_engine() && waits()) look();
  }

  bool waits() const { return state_ == State::exchanging || state_ == State::finishing; }

  void look() {
    if (!waits()) return;
    if (!moves() && !probe_.may_acquire()) return look_again();  // for the model that is published with the result
    const auto apply = [this](const GroupResult& result) { this->apply(result); };
    const Round ticket = collective_.next();
    const bool waited = probe_.state().waiting;
    const auto progress = state_ == State::exchanging ? collective_.try_exchange(apply) : collective_.try_finish(apply);
    if (!progress) return oracle_.violated(text("rank ", rank_, " fails with: ", progress.error().message));
    if (*progress != GroupAllreduce::Progress::done) {
      const ProtocolState state = probe_.state();
      if (job_.what.shares_memory() && state.waiting && !waited) look_again();  // it has arrived just now
      if (state_ == State::exchanging && !probe_.unsettled()) oracle_.arrived(rank_, ticket);
      if (state_ == State::finishing && state.full && collective_.handed() >= state.complete) {
        oracle_.arrived(rank_, state.complete);
      }
      return;
    }
    if (state_ == State::finishing) {
      state_ = State::done;
      return;
    }
    oracle_.exchanged(rank_, ticket);
    jumps_ += collective_.next() - ticket - 1;
    next_batch();
  }

  // On a board a rank's engine takes one step an event, so that those of all ranks fall between one another. Like a
  // rank that sleeps it takes none while there was nothing to do and its doorbell has not rung since that look began.
  void look_again() {
    rung_ = true;
    schedule_step();
  }

  void schedule_step() {
    if (std::exchange(stepping_, true)) return;
    const std::uint64_t slowest = random_.chance(job_.asleep) ? kSlowestWake : kSlowestStep;
    cluster_.after(Duration(static_cast<std::int64_t>(random_.below(slowest))), rank_, [this] { step_once(); });
  }

  void note_rings() {
    if (engine_.doorbell().rings() == rings_seen_) return;
    rings_seen_ = engine_.doorbell().rings();
    if (job_.what.shares_memory()) look_again();
  }

  void step_once() {
    stepping_ = false;
    if (!std::exchange(looking_, true)) rung_ = false;
    const bool more = engine_.step();
    oracle_.look_at(rank_, probe_.state());
    look();
    note_rings();
    looking_ = more;
    if (more || rung_) schedule_step();
  }

  bool step_engine() {
    bool did = false;
    while (engine_.step()) {
      did = true;
      oracle_.look_at(rank_, probe_.state());
    }
    oracle_.look_at(rank_, probe_.state());
    return did;
  }

  void wake() {
    step_engine();
    if (!waits()) return;
    if (random_.chance(0.7)) return poll_application();
    // A thread that is woken need not run at once: more than one round passes.
    cluster_.after(Duration(static_cast<std::int64_t>(random_.below(200'000))), rank_, [this] {
      if (waits()) poll_application();
    });
  }

  const Job& job_;
  SimulatedCluster& cluster_;
  GroupOracle& oracle_;
  const GroupModels models_;
  const int rank_;
  Random random_;
  Engine engine_;
  GroupAllreduce collective_;
  GroupProbe probe_;
  State state_ = State::computing;
  Field weight_{12345};  // the same everywhere at first
  Field last_step_;      // that it has been moved by
  std::uint64_t step_ = 0, jumps_ = 0;
  Contribution* writing_ = nullptr;
  bool stepping_ = false;  // on a board: the next step is scheduled
  bool looking_ = false;   // there was more to do after the last one
  bool rung_ = false;      // since this look began
  std::uint32_t rings_seen_ = 0;
};

}  // namespace

void run_group_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  const Job job = draw_job(seed, limits);
  finding.job = job.what.to_string();
  SimulatedCluster cluster(job.what.ranks, job.network, job.seed);
  Random random(job.seed, kStream + 1);
  cluster.place(job.what.members);
  if (job.what.shares_memory()) cluster.share_memory(kSharedBytes);
  for (int link = random.chance(0.4) ? static_cast<int>(random.between(1, 3)) : 0; link > 0; --link) {
    const int from = static_cast<int>(random.below(static_cast<std::uint64_t>(job.what.ranks)));
    const int to = static_cast<int>(random.below(static_cast<std::uint64_t>(job.what.ranks)));
    if (from != to) cluster.slow_link(from, to, static_cast<double>(random.log_uniform(2, 100)));
  }
  GroupOracle oracle(job.what, finding);
  std::vector<std::unique_ptr<Actor>> actors;
  for (int rank = 0; rank < job.what.ranks; ++rank) {
    actors.push_back(std::make_unique<Actor>(job, cluster, oracle, rank));
  }
  for (const auto& actor : actors) actor->start();
  bool moved = false;
  while (!finding.violation && cluster.run_next()) {
    if (cluster.events() > kMaxEvents) oracle.violated("the run does not end");
    if (job.what.stale == StaleRule::moves && !finding.violation) {
      std::vector<Field> weights;
      for (const auto& actor : actors) weights.push_back(actor->stands());
      oracle.stands(weights);
    }
    const bool moving =
        cluster.busy() || std::ranges::any_of(actors, [](const auto& actor) { return actor->stepping(); });
    if (moved && !moving) {
      std::vector<ProtocolState> states;
      for (const auto& actor : actors) states.push_back(actor->protocol());
      oracle.quiet(states);
    }
    moved = moving;
  }
  std::vector<bool> done;
  std::vector<Field> models;
  std::vector<std::uint64_t> steps;
  std::uint64_t jumps = 0;
  for (const auto& actor : actors) {
    done.push_back(actor->done());
    models.push_back(actor->model());
    steps.push_back(actor->steps());
    jumps += actor->jumps();
  }
  if (!finding.violation) oracle.ended(done, models, steps);
  const GroupOptions& options = job.what.options;
  finding.rounds = oracle.rounds();
  finding.messages = cluster.messages();
  const auto counted = [&](bool yes) { return yes ? finding.rounds : 0; };
  finding.reached = {oracle.stale(),
                     oracle.passed_over(),
                     jumps,
                     counted(job.what.ranks % options.group_size != 0),
                     counted(options.quorum > 1),
                     finding.rounds / options.full_every,
                     counted(options.late_sum == LateSum::own),
                     counted(job.what.on_board()),
                     counted(job.what.over == Over::boards),
                     oracle.put_on_means(),
                     counted(job.what.members.hosts() > 1)};
}

}  // namespace stretto
