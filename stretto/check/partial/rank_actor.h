#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "stretto/base/random.h"
#include "stretto/check/partial/rounds_oracle.h"
#include "stretto/check/partial/scenario.h"
#include "stretto/collective/partial_allreduce_probe.h"
#include "stretto/engine/engine.h"
#include "stretto/simulate/cluster.h"

namespace stretto {

/// One rank of a scenario: the real engine and the real PartialAllreduce, and an application that trains integers.
/// Everything it does is an event of the cluster; a deposit is several.
class RankActor final : private PartialObserver {
 public:
  /// State that the ranks of a scenario share beside the cluster.
  struct Shared {
    std::uint64_t came = 0;      ///< at the barrier beside the rounds of a planted defect
    std::uint64_t stepping = 0;  ///< on a board: ranks whose next step is scheduled
  };

  RankActor(const Scenario& scenario, SimulatedCluster& cluster, RoundsOracle& oracle, Shared& shared, int rank);

  /// Schedules the first step.
  void start();
  /// Steps the engine, and the application if it waits.
  void wake();
  void crash();

  bool done() const { return state_ == State::done; }
  /// Whether this rank gave up because another one was lost, and named it.
  bool failed() const { return state_ == State::failed; }
  ProtocolState protocol() const { return probe_->state(); }

 private:
  enum class State { computing, depositing, handing_over, at_barrier, exchanging, finishing, done, failed, crashed };

  void taken(Round round, int rank, const ContributionFacts* facts) override;
  void started(Round round, int come) override;

  void next_batch();
  void compute_done();
  bool drops_batch();
  void deposit_step();
  void bucket_step();
  void deposited();
  void begin_exchange();
  void poll_application();
  bool step_engine();
  void look_at_rounds();
  void look_again();
  void schedule_step();
  void note_rings();
  void step_once();
  bool waits() const { return state_ == State::exchanging || state_ == State::finishing; }
  void apply(const RoundResult& result);
  Duration short_while();

  const Scenario& scenario_;
  SimulatedCluster& cluster_;
  RoundsOracle& oracle_;
  Shared& shared_;
  const int rank_;
  Random random_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<PartialAllreduce> partial_;
  std::optional<PartialProbe> probe_;

  State state_ = State::computing;
  bool stepping_ = false;  // on a board: the next step is scheduled
  bool looking_ = false;   // there was more to do after the last one
  bool rung_ = false;      // since this look began
  std::uint32_t rings_seen_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t deposits_ = 0;
  std::uint64_t barriers_ = 0;
  Contribution* contribution_ = nullptr;
  std::optional<DepositSteps> deposit_;
  int handed_buckets_ = 0;
  IntegerModel model_;
};

/// Runs the ranks of a scenario until nothing can happen any more, or the oracle has found a violation.
void run_ranks(const Scenario& scenario, RoundsOracle& oracle, JobFinding& finding);

}  // namespace stretto
