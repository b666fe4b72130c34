#include "stretto/check/partial/rank_actor.h"

#include <memory>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/check/partial/payload.h"

namespace stretto {

namespace {

/// Of a bucket: a run that takes longer goes round in circles. The longest seen has 1,600,000.
constexpr std::uint64_t kMaxEvents = 5'000'000;

}  // namespace

RankActor::RankActor(const Scenario& scenario, SearchedJob& job, RoundsOracle& oracle, std::uint64_t& came, int rank)
    : scenario_(scenario),
      job_(job),
      oracle_(oracle),
      came_(came),
      rank_(rank),
      application_(job, rank,
                   {.waits = [this] { return waits(); },
                    .look = [this] { look_at_rounds(); },
                    .stepped = [this] { oracle_.look_at(rank_, probe_.state()); }}),
      partial_(application_.engine(), scenario.buckets, scenario.options),
      probe_(partial_) {
  probe_.observe(*this);
}

void RankActor::taken(Round round, int rank, const ContributionFacts* facts) {
  oracle_.taken(rank, round, facts);
}

void RankActor::started(Round round, int come) {
  oracle_.started(round, come);
}

void RankActor::next_batch() {
  const auto rank = static_cast<std::size_t>(rank_);
  if (scenario_.crashed_rank == rank_ && step_ == scenario_.crash_step) {
    state_ = State::crashed;
    return application_.crash(scenario_.crashes_with_host);
  }
  if (step_ == scenario_.steps[rank]) {
    if (defect(Defect::stop_without_drain)) {
      state_ = State::done;
      return;
    }
    state_ = State::finishing;
    return poll_application();
  }
  state_ = State::computing;
  application_.compute([this] { compute_done(); });
}

/// Then the rank arrives with nothing, and keeps the set that it has acquired for its next deposit.
bool RankActor::drops_batch() {
  return scenario_.passing_rank == rank_ ||
         (scenario_.pass_probability > 0 && application_.random().chance(scenario_.pass_probability));
}

void RankActor::compute_done() {
  if (contribution_ == nullptr) contribution_ = &partial_.acquire();
  if (drops_batch()) {
    oracle_.passed();
    return begin_exchange();
  }
  oracle_.deposit_begins(rank_);
  const DepositInfo info{.batches = 1, .samples = 1 + step_ % 3};
  if (scenario_.bucketwise) {
    handed_buckets_ = 0;
    state_ = State::handing_over;
    partial_.begin_deposit(*contribution_, info);
    application_.soon([this] { bucket_step(); });
  } else {
    oracle_.fill(*contribution_, rank_, deposits_, 0, scenario_.buckets.size());
    deposit_.emplace(probe_.start_deposit(*contribution_, info));
    state_ = State::depositing;
    deposit_step();
  }
}

void RankActor::bucket_step() {
  if (state_ != State::handing_over) return;
  const auto bucket = static_cast<std::size_t>(handed_buckets_);
  oracle_.fill(*contribution_, rank_, deposits_, bucket, bucket + 1);
  partial_.bucket_ready(*contribution_, handed_buckets_++);
  if (handed_buckets_ == partial_.num_buckets()) {
    deposited();
  } else {
    application_.step();
    application_.soon([this] { bucket_step(); });
  }
}

void RankActor::deposit_step() {
  if (deposit_->step()) return deposited();
  application_.soon([this] { deposit_step(); });
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
    ++came_;
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
    if (came_ >= barriers_ * static_cast<std::uint64_t>(scenario_.ranks)) {
      state_ = State::exchanging;
    } else {
      job_.cluster.after(scenario_.machines.compute, rank_, [this] {
        if (state_ == State::at_barrier && job_.cluster.events() < 3'000'000) poll_application();
      });
    }
  }
  application_.poll();
}

void RankActor::look_at_rounds() {
  const auto apply = [this](const RoundResult& result) { this->apply(result); };
  const auto progress = state_ == State::exchanging ? partial_.try_exchange(apply) : partial_.try_finish(apply);
  if (!progress) {
    const bool named = scenario_.crashes(progress.error().rank);
    if (!named) oracle_.violated(text("rank ", rank_, " fails with: ", progress.error().message));
    state_ = State::failed;
    return;
  }
  if (*progress != PartialAllreduce::Progress::done) {
    if (state_ == State::exchanging) oracle_.arrived(rank_, probe_.state().ticket);
    if (state_ == State::finishing) oracle_.drained(rank_);
    return;
  }
  if (state_ == State::exchanging) {
    oracle_.exchanged(rank_, probe_.state());
    next_batch();
  } else {
    state_ = State::done;
  }
}

void run_ranks(const Scenario& scenario, RoundsOracle& oracle, JobFinding& finding) {
  SearchedJob job(scenario.machines, scenario.seed, finding);
  std::uint64_t came = 0;
  std::vector<std::unique_ptr<RankActor>> actors;
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    actors.push_back(std::make_unique<RankActor>(scenario, job, oracle, came, rank));
  }
  for (auto& actor : actors) actor->start();

  const auto states = [&] {
    std::vector<ProtocolState> out;
    for (const auto& actor : actors) out.push_back(actor->protocol());
    return out;
  };
  const bool crashes = scenario.crashed_rank >= 0;
  job.run({.quiet =
               [&] {
                 if (!crashes) oracle.quiet(states());
               },
           .most_events = kMaxEvents * scenario.buckets.size()});
  if (!finding.violation && !crashes) {
    std::vector<bool> done;
    for (const auto& actor : actors) done.push_back(actor->done());
    oracle.ended(done, states());
  }
  for (int rank = 0; rank < scenario.ranks && crashes; ++rank) {
    const auto& actor = *actors[static_cast<std::size_t>(rank)];
    if (!scenario.crashes(rank) && !actor.done() && !actor.failed()) {
      oracle.violated(text("rank ", rank, " hangs after rank ", scenario.crashed_rank, " has crashed"));
    }
  }
}

}  // namespace stretto
