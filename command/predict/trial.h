#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "command/predict/simulated_choice.h"
#include "command/statistics/statistics.h"
#include "stretto/base/machine/cores.h"
#include "stretto/predict/shape/shape_simulation.h"

namespace stretto::command {

/// How one choice has done, over some replicas of a job.
struct Trial {
  Choice choice;
  std::vector<double> rates;                                                 ///< batches/s, of each replica
  std::vector<double> steps;                                                 ///< Outcome::steps of all of them
  double of_ideal = 0, fresh_share = 0, staleness_mean = 0, wait_share = 0;  ///< means over the replicas
  std::uint64_t staleness_max = 0;
  double unseen = std::numeric_limits<double>::quiet_NaN();  ///< Outcome::unseen, the mean over the replicas
};

/// Simulates each choice with each of `replicas`, by seeds from `seed` on, for as many steps as those have, or up to
/// the end of a period (whole_periods()), for which their times begin anew. Returns the trials in the order of the
/// choices. So many processes take one simulation after the other, and any number of them has the same results. Shows
/// on standard error how far it is. Throws what simulate() throws, and Interrupted.
std::vector<Trial> try_out(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                           const SimulatedHosts& hosts, std::uint64_t seed, int processes = num_cores());

/// The same by the choices' shapes alone (simulate_shape()), with exchanges that take what exchange_costs() says: some
/// thousand times as fast, and within some per cent. Trial::steps is empty. None for a choice without a shape.
std::vector<std::optional<Trial>> try_shapes(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                                             const SimulatedHosts& hosts, std::uint64_t seed);

/// "12.3 ± 0.4": batches/s, with the 95 % interval of the mean.
std::string rate_of(const Trial& trial);

/// The JSON of a trial in the output of --json.
nlohmann::ordered_json to_json(const Trial& trial);

/// The durations of the exchanges of a choice with a shape, over the network of `hosts`. The algorithm itself says so,
/// in some steps on the virtual clock: so what a message takes, and how many there are, is known in one place.
ExchangeCosts exchange_costs(const Choice& choice, const ShapedChoice& shaped, int ranks, const SimulatedHosts& hosts);

/// A network, as --network has it, whose bandwidth is such that a synchronous exchange of a model of so many bytes
/// takes `seconds` among so many ranks; the rest of it is the default. At most 1 TB/s.
std::string network_of_exchange(double seconds, int ranks, std::uint64_t model_bytes);

}  // namespace stretto::command
