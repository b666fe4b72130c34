#include "stretto/simulate/card_shares.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "stretto/base/error.h"

namespace stretto {

int CardShares::begin(TimePoint now, int src, int dst, Duration alone, double weight) {
  STRETTO_CHECK(src != dst && weight > 0, "a transfer from ", src, " to ", dst, " of weight ", weight);
  if (free_.empty()) {
    free_.push_back(static_cast<int>(transfers_.size()));
    transfers_.emplace_back();
  }
  const int number = free_.back();
  free_.pop_back();
  Transfer& transfer = transfers_[static_cast<std::size_t>(number)];
  transfer = {.src = src, .dst = dst, .weight = weight, .left = static_cast<double>(alone.count()), .since = now};
  for (Card* card : {&sending(transfer), &receiving(transfer)}) {
    card->transfers.push_back(number);
    weigh(*card);
  }
  share(now, sending(transfer));
  share(now, receiving(transfer));
  return number;
}

void CardShares::end(TimePoint now, int number) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(number)];
  over_.erase({transfer.over, number});
  for (Card* card : {&sending(transfer), &receiving(transfer)}) {
    std::erase(card->transfers, number);
    weigh(*card);
  }
  share(now, sending(transfer));
  share(now, receiving(transfer));
  free_.push_back(number);
}

/// Adds up anew: a sum that is added to and taken from would drift.
void CardShares::weigh(Card& card) const {
  card.weight = 0;
  for (const int number : card.transfers) card.weight += transfers_[static_cast<std::size_t>(number)].weight;
}

void CardShares::share(TimePoint now, const Card& card) {
  for (const int number : card.transfers) {
    Transfer& transfer = transfers_[static_cast<std::size_t>(number)];
    const double share = transfer.weight / std::max(sending(transfer).weight, receiving(transfer).weight);
    if (share == transfer.share) continue;
    const auto passed = static_cast<double>((now - transfer.since).count());
    transfer.left = std::max(0.0, transfer.left - passed * transfer.share);
    if (transfer.share > 0) over_.erase({transfer.over, number});
    transfer.share = share;
    transfer.since = now;
    transfer.over = now + Duration(std::llround(transfer.left / share));
    over_.emplace(transfer.over, number);
  }
}

}  // namespace stretto
