#include "stretto/collective/rounds/front.h"

#include <cstring>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/kernel/combine.h"

namespace stretto {

Front::Front(std::span<const BucketSpec> buckets, int num_sets, ReduceOp op)
    : buckets_(buckets.begin(), buckets.end()), op_(op) {
  for (const auto& bucket : buckets_) bytes_per_set_ += bucket.count * size_of(bucket.type);
  for (int i = 0; i < num_sets; ++i) {
    sets_.push_back(std::make_unique<Contribution>(buckets_, i));
    free_.push_back(sets_.back().get());
  }
}

Contribution& Front::acquire() {
  if (free_.empty()) {
    MutexLock lock(mutex_);
    free_.swap(returned_);
  }
  STRETTO_CHECK(!free_.empty(), "all ", sets_.size(), " contribution sets are in use");
  Contribution* contribution = free_.back();
  free_.pop_back();
  contribution->facts = {};
  contribution->ready.store(0, std::memory_order_relaxed);
  return *contribution;
}

void Front::give_back(Contribution* contribution) {
  MutexLock lock(mutex_);
  returned_.push_back(contribution);
}

void Front::combine(Contribution& sum, const Contribution& older, const Contribution& newer) const {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const int bucket = static_cast<int>(i);
    const auto to = sum.bucket(bucket);
    if (to.data() != older.bucket(bucket).data()) std::memcpy(to.data(), older.bucket(bucket).data(), to.size());
    reduce(buckets_[i].type, op_, to.data(), to.data(), newer.bucket(bucket).data(), buckets_[i].count);
  }
  sum.facts = older.facts + newer.facts;
  sum.ready.store(static_cast<int>(buckets_.size()), std::memory_order_relaxed);
}

bool Front::Deposit::step() {
  switch (state_) {
    case State::look:
      if (defect(Defect::take_back_deposit)) {
        seen_ = front_.front_.exchange(nullptr);
        state_ = State::put_back;
        return false;
      }
      seen_ = front_.front_.load(std::memory_order_acquire);
      state_ = seen_ == nullptr ? State::swap : State::combine;
      if (seen_ != nullptr && defect(Defect::add_in_place)) state_ = State::in_place;
      return false;
    case State::combine:
      sum_ = &front_.acquire();
      front_.combine(*sum_, *seen_, *mine_);
      state_ = State::swap;
      return false;
    case State::swap: {
      Contribution* next = sum_ != nullptr ? sum_ : mine_;
      if (!front_.front_.compare_exchange_strong(seen_, next, std::memory_order_acq_rel)) {
        if (sum_ != nullptr) front_.release(std::exchange(sum_, nullptr));
        state_ = State::look;
        return false;
      }
      // The engine has not taken the older set and cannot any more: it belongs to this thread again.
      if (seen_ != nullptr) front_.release(seen_);
      if (sum_ != nullptr) front_.release(mine_);
      return true;
    }
    case State::in_place:  // planted: the engine may have taken it meanwhile
      front_.combine(*seen_, *seen_, *mine_);
      front_.release(mine_);
      return true;
    case State::put_back:  // planted: a round may have joined without it
      if (seen_ != nullptr) {
        front_.combine(*seen_, *seen_, *mine_);
        front_.release(mine_);
      }
      front_.front_.store(seen_ != nullptr ? seen_ : mine_);
      return true;
  }
  return false;
}

}  // namespace stretto
