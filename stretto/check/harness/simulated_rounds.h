#pragma once

#include <cstdint>
#include <functional>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/simulate/cluster.h"

namespace stretto {

/// A job whose ranks each bring so many steps to a partial allreduce of one bucket, on a virtual clock.
struct SimulatedRoundsOptions {
  int ranks = 1024;
  int hosts = 0;  ///< over which the ranks are shared out in blocks, each with a board of its own; 0: messages alone
  int steps = 2;  ///< of each rank
  std::uint64_t elements = 1;
  Duration spread{20'000};  ///< ranks arrive at each step within so long of virtual time, drawn
  PartialOptions options{.policy = Policy::solo(), .max_lag = 2};
  NetworkOptions network{.jitter = Duration(1000), .eager_bytes = 64};
  std::uint64_t seed = 1;
};

/// The cost of the simulation, by the clock of this machine.
struct SimulatedRounds {
  double setup_seconds = 0;  ///< to build engines and schedules
  double seconds = 0;        ///< of all rounds
  Round rounds = 0;
  TimePoint end;  ///< of the last event, on the virtual clock
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  SimulatedCluster::Traffic busiest;  ///< between hosts: the most peers of a rank, and the most messages it has sent
  std::uint64_t batches = 0;          ///< that rounds applied, as rank 0 saw them: ranks × steps
  std::int64_t sum = 0;               ///< of the first element over all rounds: as many
  bool all_ranks_agree = true;        ///< every rank was handed the same rounds, headers and sums
};

/// Runs the job. `on_round` hears of each result that rank 0 is handed. Single-threaded, the same for the same seed.
SimulatedRounds simulate_rounds(const SimulatedRoundsOptions& options,
                                const std::function<void(const RoundResult&)>& on_round = {});

}  // namespace stretto
