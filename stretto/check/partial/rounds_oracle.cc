#include "stretto/check/partial/rounds_oracle.h"

#include "stretto/base/words.h"

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

RoundsOracle::RoundsOracle(int ranks, int max_lag, JobFinding& finding)
    : max_lag_(static_cast<Round>(max_lag)),
      waits_at_(static_cast<std::size_t>(ranks)),
      drained_(ranks),
      finding_(finding) {}

void RoundsOracle::exchanged(int rank, const ProtocolState& state) {
  waits_at_[static_cast<std::size_t>(rank)] = 0;
  if (state.ticket + max_lag_ < state.handed) {
    violated(text("rank ", rank, " has ticket ", state.ticket, " after taking ", state.handed,
                  " rounds: its debt exceeds max_lag ", max_lag_));
  }
}

RankSet RoundsOracle::arrived_at(Round round) const {
  RankSet arrived(static_cast<int>(waits_at_.size()));
  for (std::size_t rank = 0; rank < waits_at_.size(); ++rank) {
    if (waits_at_[rank] == round + 1) arrived.insert(static_cast<int>(rank));
  }
  return arrived;
}

std::optional<Round> RoundsOracle::waits_at(int rank) const {
  const Round next = waits_at_[static_cast<std::size_t>(rank)];
  return next > 0 ? std::optional(next - 1) : std::nullopt;
}

}  // namespace stretto
