#include "stretto/collective/rounds/groups/standing_models.h"

#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

GroupSum::GroupSum(std::span<const BucketSpec> specs) {
  for (const BucketSpec& spec : specs) {
    const std::uint64_t bytes = spec.count * size_of(spec.type);
    memory.emplace_back(bytes);
    buckets.emplace_back(memory.back().data(), bytes);
  }
}

StandingModels::StandingModels(std::span<const BucketSpec> buckets, const GroupOptions& options)
    : specs_(buckets.begin(), buckets.end()),
      math_(options.moves),
      full_every_(options.full_every),
      keep_own_(options.keep_own),
      keep_sums_(options.late_sum == LateSum::own),
      num_sums_(math_ != nullptr ? 2
                : keep_sums_     ? static_cast<int>(options.full_every) + 1
                                 : 3) {
  for (const BucketSpec& bucket : buckets) bytes_per_set_ += bucket.count * size_of(bucket.type);
  for (int i = 0; i < num_models(); ++i) models_.push_back(std::make_unique<StandingModel>(buckets, i));
  for (int i = 0; i < num_sums(); ++i) sums_.push_back(std::make_unique<GroupSum>(buckets));
}

StandingModel& StandingModels::acquire() {
  const MutexLock lock(mutex_);
  for (const auto& model : models_) {
    const bool stands = model.get() == newest_ && !defect(Defect::group_in_place);
    if (stands || model->pins > 0 || model->filling || model.get() == base_) continue;
    model->filling = true;
    return *model;
  }
  STRETTO_CHECK(false, "none of ", models_.size(), " models is free to write to");
}

void StandingModels::publish(int index, Round ticket) {
  const MutexLock lock(mutex_);
  stand(index, ticket);
}

void StandingModels::stand(int index, Round ticket) {
  StandingModel& model = *models_[static_cast<std::size_t>(index)];
  model.filling = false;
  model.version = ++versions_;
  model.ticket = ticket;
  newest_ = &model;
  if (math_ != nullptr) base_ = newest_;
}

std::optional<StandingModels::Step> StandingModels::begin_step() {
  const MutexLock lock(mutex_);
  if (summed_ && !defect(Defect::group_beneath_a_sum)) return std::nullopt;
  stepping_ = true;
  return Step{newest_, base_};
}

// Under one lock: a round that joined in between would take the model without its step, and its mean replace the step.
void StandingModels::end_step(int index, Round ticket) {
  const MutexLock lock(mutex_);
  stepping_ = false;
  has_base_ = newest_ == base_;
  stand(index, ticket);
}

bool StandingModels::may_step() const {
  const MutexLock lock(mutex_);
  return !summed_ || defect(Defect::group_beneath_a_sum);
}

const StandingModel* StandingModels::follow() {
  const MutexLock lock(mutex_);
  if (newest_ == base_ && has_base_) return nullptr;
  has_base_ = true;
  base_ = newest_;
  return base_;
}

const StandingModel* StandingModels::stands() const {
  const MutexLock lock(mutex_);
  STRETTO_CHECK(newest_ != nullptr, "no model stands");
  return newest_;
}

const GroupSum* StandingModels::take_full() {
  const MutexLock lock(mutex_);
  newest_->contribution.facts = {};
  return std::exchange(newest_sum_, nullptr);
}

std::uint64_t StandingModels::versions() const {
  const MutexLock lock(mutex_);
  return versions_;
}

const GroupSum* StandingModels::read(Round from) {
  const MutexLock lock(mutex_);
  STRETTO_CHECK(reading_ == nullptr, "a sum is read before the one of round ", reading_->round, " is released");
  if (newest_sum_ == nullptr || newest_sum_->round < from) return nullptr;
  reading_ = newest_sum_;
  return reading_;
}

const GroupSum* StandingModels::read_of(Round round) {
  const MutexLock lock(mutex_);
  for (const auto& sum : sums_) {
    if (sum->kept && sum->round == round) reading_ = sum.get();
  }
  return reading_;
}

void StandingModels::release(Round next) {
  const MutexLock lock(mutex_);
  drop_own(*reading_);
  reading_ = nullptr;
  for (const auto& sum : sums_) {
    if (!sum->kept || sum->round >= next) continue;
    sum->kept = false;
    drop_own(*sum);
  }
}

/// The sum names its rank's own model no more.
void StandingModels::drop_own(GroupSum& sum) {
  if (std::exchange(sum.pins_own, false)) --sum.own->pins;
}

GroupSum* StandingModels::free_sum() const {
  for (const auto& sum : sums_) {
    if (defect(Defect::group_one_sum)) return sum.get();
    const bool unread = sum->kept || sum.get() == newest_sum_ || sum.get() == reading_;
    if (!unread && sum->rounds_using == 0) return sum.get();
  }
  return nullptr;
}

bool StandingModels::has_room() const {
  if (newest_ == nullptr && !defect(Defect::group_no_initial)) return false;
  if (free_sum() == nullptr || stepping_) return false;
  // The application writes to one model, publishes it, and goes on with another: two that are not pinned. With
  // GroupOptions::moves it writes to one, and the mean becomes another.
  std::size_t pinned = 0;
  for (const auto& model : models_) {
    pinned += model->pins > 0 || model.get() == newest_ || model.get() == base_ ? 1 : 0;
  }
  return pinned + 2 <= models_.size();
}

std::optional<StandingModels::Joined> StandingModels::join(Round round, int members) {
  const MutexLock lock(mutex_);
  if (!has_room()) return std::nullopt;
  GroupSum* sum = free_sum();
  drop_own(*sum);
  StandingModel* model = newest_;
  ++sum->rounds_using;
  sum->round = round;
  sum->members = members;
  sum->own = model;
  sum->own_version = model == nullptr ? 0 : model->version;
  if (model == nullptr) return Joined{model, sum};
  ++model->pins;
  summed_ = math_ != nullptr;
  if (keep_own_) {
    ++model->pins;
    sum->pins_own = true;
  }
  if (defect(Defect::group_taken)) newest_ = nullptr;
  return Joined{model, sum};
}

/// The mean comes to stand. Its age is that of this rank's last step in it that no full round has counted.
void StandingModels::stand_mean(const GroupSum& sum) {
  StandingModel& mean = acquire();
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    math_->mean(specs_[i].type, mean.contribution.bucket(static_cast<int>(i)), sum.buckets[i], sum.members);
  }
  mean.contribution.facts = sum.own->contribution.facts;
  const MutexLock lock(mutex_);
  mean.filling = false;
  mean.ticket = mean.contribution.facts.batches > 0 ? sum.own->ticket : sum.round + 1;
  summed_ = false;
  if (defect(Defect::group_old_stands)) return;
  mean.version = ++versions_;
  newest_ = &mean;
}

void StandingModels::complete(GroupSum& sum, const RoundHeader& header) {
  if (math_ != nullptr && sum.own != nullptr) stand_mean(sum);
  const MutexLock lock(mutex_);
  sum.header = header;
  if (math_ != nullptr) {
    if ((sum.round + 1) % full_every_ == 0) newest_sum_ = &sum;
    return;
  }
  const bool replaced = newest_sum_ != nullptr && newest_sum_ != reading_ && newest_sum_ != &sum;
  if (replaced && defect(Defect::group_own_replaced)) newest_sum_->kept = false;
  if (replaced && !newest_sum_->kept) drop_own(*newest_sum_);
  newest_sum_ = &sum;
  sum.kept = keep_sums_;
  if (defect(Defect::group_reuse_before_sent) && sum.own != nullptr) --sum.own->pins;
}

void StandingModels::retire(const Joined& joined) {
  const MutexLock lock(mutex_);
  if (!defect(Defect::group_reuse_before_sent) && joined.model != nullptr) --joined.model->pins;
  --joined.sum->rounds_using;
}

}  // namespace stretto
