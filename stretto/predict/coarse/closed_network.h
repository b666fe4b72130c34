#pragma once

#include <vector>

#include "stretto/predict/model/training_job.h"

namespace stretto {

/// The closed queueing network of asynchronous training with servers (Li et al., section 2.1, Fig. 5). Each worker is
/// one task, which visits the downlinks, its own processor, the uplinks and the servers, one after the other, for ever.
///
/// Of several servers each holds 1/servers of the model, so that each station has 1/servers of the service, and a task
/// visits all of them in turn: a worker's own link has the bandwidth of a server's, and one worker alone gains nothing.
struct ClosedNetwork {
  /// Workers that are alike.
  struct Class {
    int count = 1;
    double compute = 0;  ///< W, seconds on the worker's own processor
    double update = 0;   ///< s, seconds at the servers, together
  };
  std::vector<Class> classes;
  double transfer = 0;  ///< m, seconds for the model on a link, the same down and up; more than 0
  int servers = 1;
};

/// The network with all workers there, in the mean over time.
struct NetworkSolution {
  /// Of one class.
  struct Class {
    double rate = 0;      ///< X, steps per second of all its workers
    double transfer = 0;  ///< T, seconds from the begin to the end of a worker's transfers in one direction
  };
  std::vector<Class> classes;
  double rate = 0;         ///< steps per second of all workers
  double utilization = 0;  ///< ρ, of a link; downlinks and uplinks are alike
};

/// The network solved twice, by how its links are shared. At the server work is always shared equally.
struct NetworkSolutions {
  NetworkSolution in_order;      ///< eq 2
  NetworkSolution equal_shares;  ///< eq 1
  bool exact = true;             ///< by the whole recursion; false: approximated
};

/// Most states that solve() visits: some tenths of a second.
constexpr double kMostStates = 4e6;

/// Numbers of workers of each class that can be there at once: Π(K_c + 1).
double states_of(const ClosedNetwork& network);

/// Mean value analysis over all populations (Reiser and Lavenberg, J. ACM 27(2), 1980) where there are at most
/// kMostStates of them, else the approximation.
NetworkSolutions solve(const ClosedNetwork& network);

/// Requires: states that can be counted. Takes states · classes, and memory for those of all classes but the largest.
NetworkSolutions solve_exactly(const ClosedNetwork& network);

/// Bard and Schweitzer's: what a task finds on its arrival is estimated from the full population instead of one without
/// the task. Takes a time that hardly depends on the number of workers.
NetworkSolutions solve_approximately(const ClosedNetwork& network);

}  // namespace stretto
