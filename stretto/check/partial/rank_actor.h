#pragma once

#include <cstdint>
#include <optional>

#include "stretto/check/harness/simulated_application.h"
#include "stretto/check/partial/rounds_oracle.h"
#include "stretto/check/partial/scenario.h"
#include "stretto/collective/probes.h"

namespace stretto {

/// One rank of a scenario: the real PartialAllreduce, and an application that trains integers. A deposit is several
/// events.
class RankActor final : private PartialObserver {
 public:
  /// `came`: counts ranks at the barrier beside the rounds of a planted defect.
  RankActor(const Scenario& scenario, SearchedJob& job, RoundsOracle& oracle, std::uint64_t& came, int rank);

  void start() { next_batch(); }

  bool done() const { return state_ == State::done; }
  /// Whether this rank gave up because another one was lost, and named it.
  bool failed() const { return state_ == State::failed; }
  ProtocolState protocol() const { return probe_.state(); }

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
  void look_at_rounds();
  bool waits() const { return state_ == State::exchanging || state_ == State::finishing; }
  void apply(const RoundResult& result);

  const Scenario& scenario_;
  SearchedJob& job_;
  RoundsOracle& oracle_;
  std::uint64_t& came_;
  const int rank_;
  SimulatedApplication application_;
  PartialAllreduce partial_;
  PartialProbe probe_;

  State state_ = State::computing;
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
