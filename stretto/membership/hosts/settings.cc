#include "stretto/membership/hosts/settings.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "stretto/base/error.h"
#include "stretto/transport/hosts/mpi.h"

namespace stretto {
namespace {

constexpr Duration kUsualLiveness = std::chrono::seconds(10);
constexpr Duration kLeastLiveness = std::chrono::seconds(1);

/// The value of a variable; empty where it is not set.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

Duration wanted_liveness(std::optional<Duration> given) {
  if (given) {
    if (*given >= kLeastLiveness) return *given;
    throw UsageError(text("liveness ", seconds(*given), " s: expected at least ", to_text(kLeastLiveness)));
  }
  const std::string wanted = variable("STRETTO_LIVENESS");
  if (wanted.empty()) return kUsualLiveness;
  const Duration limit = require_duration("STRETTO_LIVENESS", wanted);
  if (limit >= kLeastLiveness) return limit;
  throw UsageError(text("STRETTO_LIVENESS=", wanted, ": expected at least ", to_text(kLeastLiveness)));
}

std::string wanted_carrier(const std::string& given) {
  std::string wanted = !given.empty() ? given : variable("STRETTO_BETWEEN");
  if (wanted.empty()) return std::string(kCarriers[0]);
  const bool is_known = std::ranges::count(kCarriers, wanted) > 0;
  if (is_known && (wanted != kMpi || !mpi_of_manager().empty())) return wanted;
  throw UsageError(text(!given.empty() ? "between " : "STRETTO_BETWEEN=", wanted, ": expected ",
                        is_known ? "ranks that mpirun of Open MPI, mpiexec of MPICH or srun --mpi=pmix has started; "
                                   "elsewhere tcp"
                                 : "tcp, ucx or auto, or mpi under mpirun, mpiexec or srun"));
}

}  // namespace

BetweenHosts between_hosts(std::optional<Duration> liveness, const std::string& between) {
  return {.liveness = wanted_liveness(liveness), .carrier = wanted_carrier(between)};
}

}  // namespace stretto
