#pragma once

#include <string>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

/// A rank that wants `carrier` (settings.h) tells the others so much of UCX: its version, as "1.13.1", or why it would
/// not go by UCX. `rdma_folder`: of active_rdma_ports().
std::string ucx_offer(const std::string& carrier, const std::string& rdma_folder = "/sys/class/infiniband");

/// The way of messages between the hosts of a job.
struct CarrierChoice {
  bool ucx = false;  ///< else TCP
  std::string why;   ///< in words: "ucx 1.13.1, as is wanted"
};

/// The same on all ranks that want the same. `offers`: of all ranks, whose hosts have `names`. Errc::unavailable names
/// two ranks that keep the job from going by UCX, and what would do.
Result<CarrierChoice> choose_carrier(const std::string& carrier, const std::vector<std::string>& offers,
                                     const std::vector<std::string>& names);

}  // namespace stretto
