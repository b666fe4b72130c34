#include "stretto/papers/pairs/pair_protocol.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x70616972;  // of the draws of partners, and as many streams as there are ranks

bool is_even(int rank) {
  return rank % 2 == 0;
}

}  // namespace

PairProtocol::PairProtocol(int rank, int ranks, Pairing pairing, std::uint64_t seed)
    : rank_(rank),
      ranks_(ranks),
      pairing_(pairing),
      seed_(seed),
      asked_by_(static_cast<std::size_t>(ranks)),
      done_(static_cast<std::size_t>(ranks)) {
  const bool center = pairing == Pairing::center;
  const bool no_roles = defect(Defect::no_roles) && !center;
  asks_ = center || (ranks > 1 && (is_even(rank) || no_roles));
  for (int peer = 0; peer < ranks; ++peer) {
    const bool edge = center ? rank == 0 : no_roles || (is_even(peer) && !is_even(rank));
    asked_by_[static_cast<std::size_t>(peer)] = edge && peer != rank;
  }
  answers_ = std::ranges::find(asked_by_, true) != asked_by_.end();
}

int PairProtocol::partner(std::uint64_t exchange) const {
  if (pairing_ == Pairing::center) return 0;
  Random draw(random_bits(seed_, kStream + static_cast<std::uint64_t>(rank_), exchange));
  if (defect(Defect::no_roles)) {
    const int other = static_cast<int>(draw.below(static_cast<std::uint64_t>(ranks_ - 1)));
    return other < rank_ ? other : other + 1;
  }
  return 1 + 2 * static_cast<int>(draw.below(static_cast<std::uint64_t>(ranks_ / 2)));
}

void PairProtocol::begin_phase() {
  STRETTO_CHECK(settled(), "phase ", phase_, " of rank ", rank_, " has not settled");
  ++phase_;
  ended_ = false;
}

void PairProtocol::asked() {
  STRETTO_CHECK(asks_ && !in_flight_ && !ended_, "rank ", rank_, " asks in phase ", phase_);
  in_flight_ = true;
}

void PairProtocol::answered() {
  STRETTO_CHECK(in_flight_, "rank ", rank_, " has not asked");
  in_flight_ = false;
}

void PairProtocol::heard_done(int peer, std::uint64_t phase) {
  std::uint64_t& done = done_[static_cast<std::size_t>(peer)];
  done = std::max(done, phase);
}

bool PairProtocol::may_answer(std::uint64_t phase) const {
  if (defect(Defect::no_roles) && in_flight_) return false;
  if (defect(Defect::partner_stops) && ended_) return false;
  return phase <= phase_;
}

bool PairProtocol::settled() const {
  if (phase_ == 0) return true;
  if (!ended_ || in_flight_ || (asks_ && told_ < phase_)) return false;
  if (defect(Defect::partner_stops)) return true;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (is_missing(peer)) return false;
  }
  return true;
}

bool PairProtocol::is_missing(int peer) const {
  const auto index = static_cast<std::size_t>(peer);
  return asked_by_[index] && done_[index] < phase_;
}

}  // namespace stretto
