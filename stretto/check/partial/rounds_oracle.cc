#include "stretto/check/partial/rounds_oracle.h"

namespace stretto {

void IntegerModel::apply(std::uint64_t sum, std::uint64_t batches_in_round, std::uint64_t rate_batches) {
  momentum = momentum * 3 + sum;
  weight += momentum * (1 + rate_batches / 8);
  batches += batches_in_round;
}

bool start_is_due(const Policy& policy, const RankSet& arrived, const RankSet& drained) {
  const RankSet come = arrived | drained;
  if (drained.all()) return true;
  switch (policy.kind) {
    case Policy::Kind::full:
    case Policy::Kind::deadline: return come.all();  // a deadline's time may not have passed
    case Policy::Kind::solo: return !arrived.empty();
    case Policy::Kind::majority: return come.contains(static_cast<int>(policy.initiator));
    case Policy::Kind::quorum: return !arrived.empty() && come.count() >= static_cast<int>(policy.quorum);
  }
  return false;
}

}  // namespace stretto
