#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/papers/ordering/scale/ordered_job.h"
#include "stretto/papers/ordering/scale/step_account.h"

namespace stretto {

/// The random numbers of the ranks of a prediction: each has a sequence of its own for each purpose, so that a scheme
/// that draws more of the one does not change the other.
struct RankDraws {
  RankDraws(std::uint64_t seed, std::size_t ranks)
      : pauses(of_ranks(seed, 0, ranks)), preemptions(of_ranks(seed, 1, ranks)), oversleeps(of_ranks(seed, 2, ranks)) {}

  std::vector<Random> pauses;       ///< of the computation
  std::vector<Random> preemptions;  ///< of the scheduling thread, beside a spinning one
  std::vector<Random> oversleeps;   ///< of the background thread

 private:
  static std::vector<Random> of_ranks(std::uint64_t seed, std::uint64_t purpose, std::size_t ranks) {
    constexpr int kMostRanksBits = 40;
    std::vector<Random> out;
    out.reserve(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) out.emplace_back(seed, (purpose << kMostRanksBits) + rank);
    return out;
  }
};

/// The five ways to agree on one order of tensors that docs/lab/ordering_costs.md describes, as far as what they cost
/// differs.
enum class OrderingScheme {
  coordinator,  ///< a blocking allreduce of all ranks in each cycle
  gs,           ///< the same, and all ranks sleep equally long
  nbcs,         ///< the allreduce is begun in one cycle and looked after in later ones
  scp,          ///< as coordinator, with a core of its own for the background thread
  topo,         ///< planned once; no messages
};

inline constexpr std::array kOrderingSchemes = {OrderingScheme::coordinator, OrderingScheme::gs, OrderingScheme::nbcs,
                                                OrderingScheme::scp, OrderingScheme::topo};

/// "coordinator", "gs", "nbcs", "scp", "topo".
constexpr const char* name_of(OrderingScheme scheme) {
  constexpr std::array kNames = {"coordinator", "gs", "nbcs", "scp", "topo"};
  return kNames[static_cast<std::size_t>(scheme)];
}

/// Steps of a job, by recurrences over arrays with an entry a rank: without events, hence for any number of ranks (S
/// synchronizations of P ranks take P · S operations). docs/lab/ordering_costs.md, "At scale", has the recurrences. To
/// the bit by `seed`; the pauses of the undisturbed computation are the same for all schemes. The first `warm_up` steps
/// are not returned. Requires: ranks, cores, steps ≥ 1; at least one group.
OrderedSteps predict_ordered_steps(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps,
                                   std::uint64_t seed, int warm_up = 10);

/// The same as predict_ordered_steps(), thread by thread on simulated cores (papers/ordering/scale/core_pool.h): of
/// each rank the threads of the input pipeline, the one that schedules computation, and the background thread. What a
/// spinning thread takes from others is not a formula here but comes from who has a core when. Good for some hundred
/// ranks. `slice`: of the cores, in seconds. Requires: as there; one group of tensors.
OrderedSteps simulate_ordered_steps(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps,
                                    std::uint64_t seed, int warm_up = 10, double slice = 3e-3);

}  // namespace stretto
