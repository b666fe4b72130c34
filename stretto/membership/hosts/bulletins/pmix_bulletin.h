#pragma once

#include <future>
#include <memory>
#include <string>

#include "stretto/membership/hosts/bulletin.h"

namespace stretto {

/// The store that PMIx keeps for the ranks that mpirun (Open MPI) or srun --mpi=pmix has started, by libpmix.so.2 or
/// what STRETTO_PMIX names, loaded when it is first asked. Some servers heed no timeout: what is asked is asked on a
/// thread of its own, and may stay unanswered for ever.
class PmixBulletin final : public Bulletin {
 public:
  using Bulletin::Bulletin;
  Result<void> publish(const std::string& words) override;
  Result<std::string> look_up() override;

 private:
  struct Library;
  using Answer = Result<std::string>;
  /// The library, when it has reached its server.
  Result<std::shared_ptr<const Library>> begun();

  std::shared_ptr<const Library> library_, loading_;  // after and before it has reached its server
  std::future<Answer> beginning_, asked_;             // what has not come yet
};

}  // namespace stretto
