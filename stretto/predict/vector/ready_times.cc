#include "stretto/predict/vector/ready_times.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace stretto {

namespace {

/// Ranks whose times lie in a processor's own cache together.
constexpr std::size_t kBlock = 4096;

/// A message that leaves as soon as its sender and its card are ready; returns when the sender's overhead is over.
inline double send(double ready, double& card, double overhead, double card_busy) {
  const double begin = std::max(ready, card);
  card = begin + card_busy;
  return begin + overhead;
}

}  // namespace

ReadyTimes::ReadyTimes(std::vector<double> ready, const MessageCosts& costs)
    : costs_(costs), ready_(std::move(ready)), card_(ready_.size(), -1e300) {}

void ReadyTimes::shift(std::size_t distance, double bytes) {
  const std::size_t ranks = ready_.size();
  sent_.resize(ranks);
  const double overhead = costs_.overhead;
  const double card_busy = std::max(costs_.gap, costs_.after_first(bytes));
  const double way = costs_.on_the_way(bytes);
  double* __restrict ready = ready_.data();
  double* __restrict card = card_.data();
  double* __restrict sent = sent_.data();
  for (std::size_t rank = 0; rank < ranks; ++rank) sent[rank] = send(ready[rank], card[rank], overhead, card_busy);
  for (std::size_t rank = 0; rank < distance; ++rank)
    ready[rank] = std::max(sent[rank], sent[ranks - distance + rank] + way) + overhead;
  for (std::size_t rank = distance; rank < ranks; ++rank)
    ready[rank] = std::max(sent[rank], sent[rank - distance] + way) + overhead;
}

void ReadyTimes::swap(std::size_t mask, double bytes) {
  swap_within(0, ready_.size(), mask, bytes);
}

void ReadyTimes::swap_within(std::size_t first, std::size_t end, std::size_t mask, double bytes) {
  const double overhead = costs_.overhead;
  const double card_busy = std::max(costs_.gap, costs_.after_first(bytes));
  const double way = costs_.on_the_way(bytes);
  for (std::size_t low = first; low < end; low += 2 * mask) {
    double* __restrict a = ready_.data() + low;
    double* __restrict b = a + mask;
    double* __restrict card_a = card_.data() + low;
    double* __restrict card_b = card_a + mask;
    for (std::size_t rank = 0; rank < mask; ++rank) {
      const double sent_a = send(a[rank], card_a[rank], overhead, card_busy);
      const double sent_b = send(b[rank], card_b[rank], overhead, card_busy);
      a[rank] = std::max(sent_a, sent_b + way) + overhead;
      b[rank] = std::max(sent_b, sent_a + way) + overhead;
    }
  }
}

void ReadyTimes::swap_all(std::size_t ranks, double bytes) {
  // Rounds between near ranks block by block, while their times lie in the cache; the others over all.
  const std::size_t block = std::min(kBlock, ranks);
  for (std::size_t first = 0; first < ranks; first += block) {
    for (std::size_t mask = 1; mask < block; mask *= 2) swap_within(first, first + block, mask, bytes);
  }
  for (std::size_t mask = block; mask < ranks; mask *= 2) swap_within(0, ranks, mask, bytes);
}

void ReadyTimes::give(std::size_t from, std::size_t to, std::size_t count, double bytes) {
  const double card_busy = std::max(costs_.gap, costs_.after_first(bytes));
  const double way = costs_.on_the_way(bytes);
  for (std::size_t rank = 0; rank < count; ++rank) {
    double& sender = ready_[from + rank];
    double& receiver = ready_[to + rank];
    sender = send(sender, card_[from + rank], costs_.overhead, card_busy);
    receiver = std::max(receiver, sender + way) + costs_.overhead;
  }
}

std::vector<double> ring_allreduce(std::vector<double> ready, double bytes, const MessageCosts& costs) {
  const std::size_t ranks = ready.size();
  ReadyTimes times(std::move(ready), costs);
  for (std::size_t round = 1; round < 2 * ranks - 1; ++round) times.shift(1, bytes / static_cast<double>(ranks));
  return {times.ready().begin(), times.ready().end()};
}

std::vector<double> recursive_doubling(std::vector<double> ready, double bytes, const MessageCosts& costs) {
  const std::size_t ranks = ready.size();
  const std::size_t power = std::bit_floor(ranks);
  ReadyTimes times(std::move(ready), costs);
  times.give(power, 0, ranks - power, bytes);
  times.swap_all(power, bytes);
  times.give(0, power, ranks - power, bytes);
  return {times.ready().begin(), times.ready().end()};
}

}  // namespace stretto
