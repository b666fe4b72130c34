#pragma once

#include <string>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

/// A rank that wants `carrier` (settings.h) tells the others so much of the library by which its messages would go: the
/// version, as "1.13.1" of UCX or "4.1.4 (Open MPI)", or why they would not. `rdma_folder`: of active_rdma_ports().
std::string carrier_offer(const std::string& carrier, const std::string& rdma_folder = "/sys/class/infiniband");

/// The way of messages between the hosts of a job.
struct CarrierChoice {
  enum class Engine { tcp, ucx, mpi };
  Engine engine = Engine::tcp;
  std::string why = {};  ///< in words: "ucx 1.13.1, as is wanted"
};

/// The same on all ranks that want the same. `offers`: of all ranks, whose hosts have `names`. Errc::unavailable names
/// two ranks that keep the job from going by what is wanted, and what would do.
Result<CarrierChoice> choose_carrier(const std::string& carrier, const std::vector<std::string>& offers,
                                     const std::vector<std::string>& names);

}  // namespace stretto
