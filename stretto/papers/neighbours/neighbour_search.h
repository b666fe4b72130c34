#pragma once

#include <cstdint>

#include "stretto/check/harness/job_search.h"

namespace stretto {

inline constexpr Situation kPushSumReaches[] = {{"messages to ranks that were rounds behind"},
                                                {"messages handed out after their round"},
                                                {"rounds of ranks without batches"},
                                                {"averages of all ranks"},
                                                {"lost ranks"}};
inline constexpr Situation kNeighbourReaches[] = {{"messages to ranks that were rounds behind"},
                                                  {"rounds of ranks without batches"},
                                                  {"averages of all ranks"},
                                                  {"lost ranks"},
                                                  {"rounds of gossip"}};

/// Runs the job of `seed` through the real NeighbourExchange: push-sum on exponential and bipartite graphs, with up to
/// four neighbours and waits for a round up to three back; ranks and links of different speeds, unequal numbers of
/// batches, averages of all ranks in between. In exact arithmetic. Checks after every transition that the weights of
/// all ranks and of the messages on their way sum to the number of ranks and are positive, and that the biased models
/// sum to the first ones and all updates; that no message is lost or counted twice; and that all ranks end after the
/// same round.
void run_push_sum_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

/// The same for ranks that take the weighted mean of their own model and their neighbours': D-PSGD on any graph, in
/// either order of average and step, and GossipGraD. Checks that each rank's model is exactly the mean of the models of
/// this round, and that the mean of all models moves by the updates alone.
void run_neighbour_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
