#include "stretto/check/carried/carried_member.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/check/partial/payload.h"

namespace stretto {

void CarriedMember::enter(SearchedJob& job, int seat, const std::vector<BucketSpec>& buckets,
                          const PartialOptions& options) {
  const Carried carried = take_out(options.rounds_before);
  if (place_ != nullptr) earlier_.push_back(std::move(place_));
  place_ = std::make_unique<CarriedPlace>(
      job, seat, buckets, options,
      SimulatedApplication::Hooks{.waits = [this] { return waits(); }, .look = [this] { look_at_rounds(); }});
  frozen_ = false;
  contribution_ = nullptr;
  carried_ = 0;
  for (const auto& deposit : carried.deposits) carried_ += deposit.facts.batches;
  place_->partial.put_in(carried);
  place_->application.step();
}

Carried CarriedMember::take_out(Round round) {
  std::vector<CarriedPlace*> places;
  for (const auto& place : earlier_) places.push_back(place.get());
  if (place_ != nullptr) places.push_back(place_.get());
  for (; !places.empty(); places.pop_back()) {
    CarriedPlace& place = *places.back();
    if (place.begun) return place.partial.take_out(std::max(round, defect(Defect::carried_forgets) ? forgotten_ : 0));
    // Where it has entered and not begun it has deposited nothing. What it has put in is in the first round of that
    // world, which counts, or has not been: then its deposits lie where they were.
    if (place.before < round) return {};
    forgotten_ = std::max(forgotten_, place.before);
  }
  return {};
}

std::optional<CarriedMember::Kept> CarriedMember::result_of(Round round) {
  if (const auto known = fetched_.find(round); known != fetched_.end()) return known->second;
  for (const auto& place : earlier_) {
    if (!place->begun || round < place->before || round >= place->partial.complete()) continue;
    const auto result = place->partial.result_of(round);
    if (!result) {
      oracle_.violated(
          text("member ", id, " holds ", place->partial.complete(), " rounds, and keeps round ", round, " no more"));
      return std::nullopt;
    }
    Kept kept{result->policy, *result->header, {}};
    for (const auto& bucket : result->buckets) kept.buckets.emplace_back(bucket.begin(), bucket.end());
    return kept;
  }
  return std::nullopt;
}

bool CarriedMember::begin(const std::vector<CarriedMember*>& holders) {
  if (!has_model_ && !learn(holders)) return false;
  if (defect(Defect::carried_jumps)) oracle_.joins(id, place_->before);
  while (oracle_.handed(id) < place_->before) {
    const Round round = oracle_.handed(id);
    std::optional<Kept> kept;
    for (std::size_t i = 0; i < holders.size() && !kept; ++i) kept = holders[i]->result_of(round);
    if (!kept) {
      // Of those that went on with these results none is left: others have learned the model from them.
      if (!learn(holders)) return false;
      break;
    }
    const std::vector<std::span<const std::byte>> buckets(kept->buckets.begin(), kept->buckets.end());
    hand_over({.round = round, .policy = kept->policy, .header = &kept->header, .buckets = buckets, .passed = {}});
    fetched_.emplace(round, *std::move(kept));
  }
  place_->begun = true;
  if (waits_anew_) {
    state_ = State::exchanging;
    place_->application.poll();
  } else {
    next_batch();
  }
  return true;
}

bool CarriedMember::learn(const std::vector<CarriedMember*>& holders) {
  const Round before = place_->before;
  const auto holds = [&](const CarriedMember* other) {
    return other->has_model_ && oracle_.handed(other->id) >= before;
  };
  if (std::ranges::none_of(holders, holds)) return false;
  model_ = oracle_.model_before(before);
  oracle_.joins(id, before);
  has_model_ = true;
  return true;
}

void CarriedMember::all_begun(const SearchedJob& job) {
  earlier_.clear();
  fetched_.clear();
  forgotten_ = 0;
  if (place_ != nullptr && &place_->job != &job) place_ = nullptr;
}

void CarriedMember::freeze() {
  place_->application.engine().freeze();
  counted_ = held();
  frozen_ = true;
  if (state_ == State::done) {
    state_ = State::between;
    waits_anew_ = false;
  }
  place_->application.poll();
}

void CarriedMember::crash() {
  state_ = State::gone;
  place_->application.crash();
}

void CarriedMember::hand_over(const RoundResult& result) {
  if (frozen_ && place_->begun && result.round >= counted_) {
    return oracle_.violated(
        text("member ", id, " takes round ", result.round, ", and has reported ", counted_, " rounds"));
  }
  if (!result.empty()) {
    const std::uint64_t sum = first_bits(result.buckets[0].last(sizeof(std::uint64_t)), DataType::int64);
    model_.apply(sum, result.header->batches, model_.batches);
  }
  if (!ignored_) oracle_.handed_over(id, result, model_);
}

void CarriedMember::next_batch() {
  if (step_ == steps_) {
    state_ = State::finishing;
    return place_->application.poll();
  }
  state_ = State::computing;
  place_->application.compute([this] { compute_done(); });
}

void CarriedMember::compute_done() {
  constexpr double kDropped = 0.1;
  if (state_ == State::gone) return;
  if (contribution_ == nullptr) contribution_ = &place_->partial.acquire();
  if (place_->application.random().chance(kDropped)) return begin_exchange();
  if (!ignored_) oracle_.deposit(id, *contribution_, place_->partial.handed());
  const DepositInfo info{.batches = 1, .samples = 1 + deposits_++ % 3};
  deposit_.emplace(place_->probe.start_deposit(*contribution_, info));
  state_ = State::depositing;
  deposit_step();
}

void CarriedMember::deposit_step() {
  if (state_ == State::gone) return;
  if (!deposit_->step()) return place_->application.soon([this] { deposit_step(); });
  contribution_ = nullptr;
  begin_exchange();
}

void CarriedMember::begin_exchange() {
  ++step_;
  state_ = State::exchanging;
  place_->application.poll();
}

void CarriedMember::look_at_rounds() {
  const auto apply = [this](const RoundResult& result) { hand_over(result); };
  PartialAllreduce& partial = place_->partial;
  const bool exchanging = state_ == State::exchanging;
  const auto progress = exchanging ? partial.try_exchange(apply) : partial.try_finish(apply);
  if (!progress) {
    if (progress.error().code != Errc::members_changed || !frozen_) {
      return oracle_.violated(text("member ", id, " fails with: ", progress.error().message));
    }
    state_ = State::between;
    waits_anew_ = exchanging;
    return;
  }
  if (*progress != PartialAllreduce::Progress::done) return;
  if (exchanging) return next_batch();
  state_ = State::done;
}

std::string CarriedMember::to_string() {
  static constexpr const char* kStates[] = {"computing", "depositing", "exchanging", "finishing",
                                            "done",      "between",    "gone"};
  return text("member ", id, ": ", kStates[static_cast<int>(state_)], frozen_ ? ", frozen" : "",
              begun() ? ", begun" : "", ", handed ", oracle_.handed(id));
}

}  // namespace stretto
