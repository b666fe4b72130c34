#include "stretto/check/partial/rank_actor.h"

#include <utility>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/check/partial/payload.h"

namespace stretto {

namespace {

constexpr std::uint64_t kSlowestWake = 100'000;  // nanoseconds
constexpr std::uint64_t kSlowestStep = 100;
/// Of a bucket: a run that takes longer goes round in circles. The longest seen has 1,600,000.
constexpr std::uint64_t kMaxEvents = 5'000'000;
constexpr std::uint64_t kSharedBytes = 64 << 20;

}  // namespace

RankActor::RankActor(const Scenario& scenario, SimulatedCluster& cluster, RoundsOracle& oracle, Shared& shared,
                     int rank)
    : scenario_(scenario),
      cluster_(cluster),
      oracle_(oracle),
      shared_(shared),
      rank_(rank),
      random_(scenario.seed, 1000 + static_cast<std::uint64_t>(rank)) {
  engine_ = std::make_unique<Engine>(cluster.transport(rank), cluster.clock());
  partial_ = std::make_unique<PartialAllreduce>(*engine_, scenario.buckets, scenario.options);
  probe_.emplace(*partial_).observe(*this);
  cluster.on_wake(rank, [this] { wake(); });
}

void RankActor::taken(Round round, int rank, const ContributionFacts* facts) {
  oracle_.taken(rank, round, facts);
}

void RankActor::started(Round round, int come) {
  oracle_.started(round, come);
}

Duration RankActor::short_while() {
  return Duration(static_cast<std::int64_t>(random_.below(300)));
}

void RankActor::start() {
  next_batch();
}

void RankActor::next_batch() {
  const auto rank = static_cast<std::size_t>(rank_);
  if (scenario_.crashed_rank == rank_ && step_ == scenario_.crash_step) return crash();
  if (step_ == scenario_.steps[rank]) {
    if (defect(Defect::stop_without_drain)) {
      state_ = State::done;
      return;
    }
    state_ = State::finishing;
    return poll_application();
  }
  state_ = State::computing;
  double factor = scenario_.slowness[rank] * (1 + scenario_.spread * (2 * random_.uniform() - 1));
  if (random_.chance(scenario_.stall_probability)) factor *= static_cast<double>(random_.between(10, 50));
  const Duration compute = from_seconds(seconds(scenario_.compute) * factor);
  if (random_.chance(scenario_.stop_probability)) {
    cluster_.stop(rank_, cluster_.now() + Duration(scenario_.compute.count() * random_.between(1, 20)));
  }
  cluster_.after(compute, rank_, [this] { compute_done(); });
}

void RankActor::crash() {
  state_ = State::crashed;
  cluster_.crash(rank_, scenario_.network.latency);
}

/// Then the rank arrives with nothing, and keeps the set that it has acquired for its next deposit.
bool RankActor::drops_batch() {
  return scenario_.passing_rank == rank_ ||
         (scenario_.pass_probability > 0 && random_.chance(scenario_.pass_probability));
}

void RankActor::compute_done() {
  if (contribution_ == nullptr) contribution_ = &partial_->acquire();
  if (drops_batch()) {
    oracle_.passed();
    return begin_exchange();
  }
  oracle_.deposit_begins(rank_);
  const DepositInfo info{.batches = 1, .samples = 1 + step_ % 3};
  if (scenario_.bucketwise) {
    handed_buckets_ = 0;
    state_ = State::handing_over;
    partial_->begin_deposit(*contribution_, info);
    cluster_.after(short_while(), rank_, [this] { bucket_step(); });
  } else {
    oracle_.fill(*contribution_, rank_, deposits_, 0, scenario_.buckets.size());
    deposit_.emplace(probe_->start_deposit(*contribution_, info));
    state_ = State::depositing;
    deposit_step();
  }
}

void RankActor::bucket_step() {
  if (state_ != State::handing_over) return;
  const auto bucket = static_cast<std::size_t>(handed_buckets_);
  oracle_.fill(*contribution_, rank_, deposits_, bucket, bucket + 1);
  partial_->bucket_ready(*contribution_, handed_buckets_++);
  if (handed_buckets_ == partial_->num_buckets()) {
    deposited();
  } else {
    step_engine();
    cluster_.after(short_while(), rank_, [this] { bucket_step(); });
  }
}

void RankActor::deposit_step() {
  if (deposit_->step()) return deposited();
  cluster_.after(short_while(), rank_, [this] { deposit_step(); });
}

void RankActor::deposited() {
  ++deposits_;
  contribution_ = nullptr;
  oracle_.deposit_made(rank_);
  begin_exchange();
}

void RankActor::begin_exchange() {
  ++step_;
  if (defect(Defect::full_beside_the_rounds) && step_ % 4 == 0) {
    ++barriers_;
    ++shared_.came;
    state_ = State::at_barrier;
  } else {
    state_ = State::exchanging;
  }
  poll_application();
}

void RankActor::apply(const RoundResult& result) {
  if (!result.empty() || defect(Defect::apply_empty_round)) {
    const std::uint64_t sum = first_bits(result.buckets[0], scenario_.buckets[0].type);
    model_.apply(sum, result.header->batches, defect(Defect::rate_by_own_step) ? step_ : model_.batches);
  }
  oracle_.handed_over(rank_, result, model_);
}

void RankActor::poll_application() {
  if (state_ == State::at_barrier) {
    if (shared_.came >= barriers_ * static_cast<std::uint64_t>(scenario_.ranks)) {
      state_ = State::exchanging;
    } else {
      cluster_.after(scenario_.compute, rank_, [this] {
        if (state_ == State::at_barrier && cluster_.events() < 3'000'000) poll_application();
      });
    }
  }
  if (waits()) look_at_rounds();
  if (state_ == State::failed) return;
  if (scenario_.shares_memory()) {
    if (waits()) look_again();
    return note_rings();
  }
  if (step_engine() && waits()) poll_application();
}

void RankActor::look_at_rounds() {
  const auto apply = [this](const RoundResult& result) { this->apply(result); };
  const auto progress = state_ == State::exchanging ? partial_->try_exchange(apply) : partial_->try_finish(apply);
  if (!progress) {
    const bool named = progress.error().rank == scenario_.crashed_rank;
    if (!named) oracle_.violated(text("rank ", rank_, " fails with: ", progress.error().message));
    state_ = State::failed;
    return;
  }
  if (*progress != PartialAllreduce::Progress::done) {
    if (state_ == State::exchanging) oracle_.arrived(rank_, probe_->state().ticket);
    if (state_ == State::finishing) oracle_.drained(rank_);
    return;
  }
  if (state_ == State::exchanging) {
    oracle_.exchanged(rank_, probe_->state());
    next_batch();
  } else {
    state_ = State::done;
  }
}

// On a board a rank's engine takes one step an event, so that those of all ranks fall between one another. Like a rank
// that sleeps it takes none while there was nothing to do and its doorbell has not rung since that look began.
void RankActor::look_again() {
  rung_ = true;
  schedule_step();
}

void RankActor::schedule_step() {
  if (stepping_) return;
  stepping_ = true;
  ++shared_.stepping;
  const bool put_to_sleep = random_.chance(0.005);
  const auto delay = static_cast<std::int64_t>(random_.below(put_to_sleep ? kSlowestWake : kSlowestStep));
  cluster_.after(Duration(delay), rank_, [this] { step_once(); });
}

void RankActor::note_rings() {
  if (engine_->doorbell().rings() == rings_seen_) return;
  rings_seen_ = engine_->doorbell().rings();
  look_again();
}

void RankActor::step_once() {
  stepping_ = false;
  --shared_.stepping;
  if (!std::exchange(looking_, true)) rung_ = false;
  if (state_ == State::crashed || state_ == State::failed) return;
  const bool more = engine_->step();
  oracle_.look_at(rank_, probe_->state());
  if (waits()) look_at_rounds();
  if (state_ == State::failed) return;
  note_rings();
  looking_ = more;
  if (more || rung_) return schedule_step();
  cluster_.wake_by(rank_, engine_->step_by());
}

bool RankActor::step_engine() {
  bool did = false;
  while (engine_->step()) {
    did = true;
    oracle_.look_at(rank_, probe_->state());
  }
  oracle_.look_at(rank_, probe_->state());
  cluster_.wake_by(rank_, engine_->step_by());
  return did;
}

void RankActor::wake() {
  if (state_ == State::crashed) return;
  if (scenario_.shares_memory()) return look_again();
  step_engine();
  if (state_ != State::exchanging && state_ != State::finishing) return;
  if (random_.chance(0.8)) return poll_application();
  // A thread that is woken need not run at once. Where only the newest result is kept, more than one round passes.
  const std::uint64_t slowest = scenario_.options.delivery == Delivery::latest ? 20 * kSlowestWake : kSlowestWake;
  cluster_.after(Duration(static_cast<std::int64_t>(random_.below(slowest))), rank_, [this] {
    if (state_ == State::exchanging || state_ == State::finishing) poll_application();
  });
}

void run_ranks(const Scenario& scenario, RoundsOracle& oracle, JobFinding& finding) {
  SimulatedCluster cluster(scenario.ranks, scenario.network, scenario.seed);
  cluster.place(scenario.members);
  if (scenario.shares_memory()) cluster.share_memory(kSharedBytes);
  for (const auto& link : scenario.slow_links) cluster.slow_link(link.src, link.dst, link.factor);
  RankActor::Shared shared;
  std::vector<std::unique_ptr<RankActor>> actors;
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    actors.push_back(std::make_unique<RankActor>(scenario, cluster, oracle, shared, rank));
  }
  for (auto& actor : actors) actor->start();

  const auto states = [&] {
    std::vector<ProtocolState> out;
    for (const auto& actor : actors) out.push_back(actor->protocol());
    return out;
  };
  // On a board a rank's steps are no messages, and nothing rests while one is still to be taken.
  const auto moves = [&] { return cluster.busy() || shared.stepping > 0; };
  bool moved = false;
  while (!finding.violation && cluster.run_next()) {
    if (cluster.events() > kMaxEvents * scenario.buckets.size()) oracle.violated("promise 5: the run does not end");
    const bool moving = moves();
    if (moved && !moving && scenario.crashed_rank < 0) oracle.quiet(states());
    moved = moving;
  }
  const bool crashed = scenario.crashed_rank >= 0;
  if (!finding.violation && !crashed) {
    std::vector<bool> done;
    for (const auto& actor : actors) done.push_back(actor->done());
    oracle.ended(done, states());
  }
  for (int rank = 0; rank < scenario.ranks && crashed; ++rank) {
    const auto& actor = *actors[static_cast<std::size_t>(rank)];
    if (rank != scenario.crashed_rank && !actor.done() && !actor.failed()) {
      oracle.violated(text("rank ", rank, " hangs after rank ", scenario.crashed_rank, " has crashed"));
    }
  }
  finding.messages = cluster.messages();
}

}  // namespace stretto
