#include "stretto/simulate/card_shares.h"

#include <algorithm>
#include <cmath>

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
  transfer(number) = {
      .from = 2 * src, .to = 2 * dst + 1, .weight = weight, .left = static_cast<double>(alone.count()), .since = now};
  card(2 * src).transfers.push_back(number);
  card(2 * dst + 1).transfers.push_back(number);
  find_connected(transfer(number));
  fill();
  set_rates(now);
  return number;
}

void CardShares::end(TimePoint now, int number) {
  const Transfer& ended = transfer(number);
  over_.erase({ended.over, number});
  std::erase(card(ended.from).transfers, number);
  std::erase(card(ended.to).transfers, number);
  find_connected(ended);
  fill();
  set_rates(now);
  free_.push_back(number);
}

void CardShares::find(int direction) {
  Card& card = this->card(direction);
  if (card.found) return;
  card.found = true;
  card.rate_left = 1;
  card.weight = 0;
  card.open = card.transfers.size();
  for (const int number : card.transfers) {
    card.weight += transfer(number).weight;
    transfer(number).next = 0;
  }
  found_.push_back(direction);
}

/// All directions that a chain of transfers leads to from those of `transfer`.
void CardShares::find_connected(const Transfer& transfer) {
  found_.clear();
  find(transfer.from);
  find(transfer.to);
  for (std::size_t i = 0; i < found_.size(); ++i) {
    for (const int number : card(found_[i]).transfers) {
      find(this->transfer(number).from);
      find(this->transfer(number).to);
    }
  }
  for (const int direction : found_) card(direction).found = false;
}

/// Progressive filling: the card that is used up first decides the rates of all that pass it.
void CardShares::fill() {
  for (;;) {
    const Card* tightest = nullptr;
    double level = 0;  // rate by weight
    for (const int direction : found_) {
      const Card& card = this->card(direction);
      if (card.open == 0) continue;
      const double here = card.rate_left / card.weight;
      if (tightest != nullptr && here >= level) continue;
      tightest = &card;
      level = here;
    }
    if (tightest == nullptr) return;
    for (const int number : tightest->transfers) {
      Transfer& transfer = this->transfer(number);
      if (transfer.next > 0) continue;
      transfer.next = transfer.weight * level;
      for (const int direction : {transfer.from, transfer.to}) {
        Card& card = this->card(direction);
        card.rate_left -= transfer.next;
        card.weight -= transfer.weight;
        --card.open;
      }
    }
  }
}

void CardShares::set_rates(TimePoint now) {
  for (const int direction : found_) {
    for (const int number : card(direction).transfers) {
      Transfer& transfer = this->transfer(number);
      if (transfer.next == transfer.rate) continue;
      transfer.left =
          std::max(0.0, transfer.left - static_cast<double>((now - transfer.since).count()) * transfer.rate);
      if (transfer.rate > 0) over_.erase({transfer.over, number});
      transfer.rate = transfer.next;
      transfer.since = now;
      transfer.over = now + Duration(std::llround(transfer.left / transfer.rate));
      over_.emplace(transfer.over, number);
    }
  }
}

}  // namespace stretto
