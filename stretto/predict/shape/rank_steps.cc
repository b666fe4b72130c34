#include "stretto/predict/shape/rank_steps.h"

#include <cmath>

namespace stretto {

double to_moment(double seconds) {
  return std::round(seconds * 1e9);
}

RankSteps::RankSteps(const StepTimes& times, const ShapeJob& job, int trained)
    : times_(times),
      shared_(job.shared_data),
      ranks_(static_cast<std::size_t>(trained)),
      ends_(static_cast<std::size_t>(trained)) {
  const std::uint64_t each = job.steps != 0 ? job.steps : times.steps();
  // Ranks that only serve take no batches: those of all ranks are shared out among the others.
  const std::uint64_t all = each * static_cast<std::uint64_t>(times.ranks());
  const auto takers = static_cast<std::uint64_t>(trained);
  if (shared_) pool_ = all;
  for (std::uint64_t rank = 0; rank < takers && !shared_; ++rank) {
    ranks_[rank].left = all / takers + (rank < all % takers ? 1 : 0);
  }
}

bool RankSteps::begin(int rank, double now) {
  Rank& taker = ranks_[static_cast<std::size_t>(rank)];
  if (taker.ended != kNever) waited_ += now - taker.ended;
  std::uint64_t& left = shared_ ? pool_ : taker.left;
  if (left == 0) return false;
  --left;
  const float lasts = times_.step(taker.step)[static_cast<std::size_t>(rank)];
  if (++taker.step == times_.steps()) taker.step = 0;
  ends_.set(static_cast<std::size_t>(rank), now + to_moment(static_cast<double>(lasts)),
            static_cast<std::uint64_t>(rank));
  return true;
}

void RankSteps::end_next() {
  const std::size_t rank = ends_.first();
  ranks_[rank].ended = ends_.time();
  ends_.clear(rank);
  ++made_;
}

}  // namespace stretto
