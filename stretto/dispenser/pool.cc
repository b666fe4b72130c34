#include "stretto/dispenser/pool.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "stretto/base/defect.h"

namespace stretto {
namespace {

Error wrong_position() {
  return {Errc::bad_input, "the position of a pool of batches cannot be read: it does not fit the job"};
}

/// The numbers of a position.
struct Parts {
  std::uint64_t next = 0;
  std::span<const std::uint64_t> returned = {};
  std::span<const std::uint64_t> losses = {};  // pairs: a batch, and how often
};

/// Those of a position, where it has as many as it says; of none at the start of a job.
std::optional<Parts> parts_of(std::span<const std::uint64_t> position) {
  if (position.empty()) return Parts{};
  if (position.size() < 2 || position[1] > position.size() - 2) return std::nullopt;
  return Parts{
      .next = position[0], .returned = position.subspan(2, position[1]), .losses = position.subspan(2 + position[1])};
}

std::vector<std::uint64_t> numbers_of(std::uint64_t next, const std::vector<std::uint64_t>& returned) {
  std::vector<std::uint64_t> numbers{next, returned.size()};
  numbers.insert(numbers.end(), returned.begin(), returned.end());
  return numbers;
}

}  // namespace

Result<Pool> Pool::from_position(std::uint64_t batches, std::span<const std::uint64_t> position) {
  Pool pool(batches);
  const auto parts = parts_of(position);
  if (!parts || parts->next > batches) return wrong_position();
  const auto [next, returned, losses] = *parts;
  pool.next_ = next;
  pool.returned_.assign(returned.begin(), returned.end());
  if (losses.size() % 2 != 0 || std::ranges::adjacent_find(returned, std::greater_equal<>()) != returned.end()) {
    return wrong_position();
  }
  if (!returned.empty() && returned.back() >= pool.next_) return wrong_position();
  for (std::size_t i = 0; i < losses.size(); i += 2) {
    const bool fits = losses[i] < pool.next_ && losses[i + 1] > 0 && losses[i + 1] <= kMostLosses;
    if (!fits || !pool.losses_.emplace(losses[i], losses[i + 1]).second) return wrong_position();
  }
  return pool;
}

std::optional<std::uint64_t> Pool::take(std::uint64_t member) {
  const auto batch = reserve(member);
  if (batch) told(member, std::numeric_limits<std::uint64_t>::max());
  return batch;
}

std::optional<std::uint64_t> Pool::reserve(std::uint64_t member) {
  if (gone_.contains(member)) return std::nullopt;
  std::uint64_t batch = next_;
  if (!returned_.empty()) {
    batch = returned_.front();
    returned_.erase(returned_.begin());
  } else if (next_ < batches_) {
    ++next_;
  } else {
    return std::nullopt;
  }
  hands_[member].open.push_back(batch);
  return batch;
}

std::optional<std::uint64_t> Pool::handed_after(std::uint64_t member, std::uint64_t count) const {
  const auto found = hands_.find(member);
  if (found == hands_.end() || gone_.contains(member) || count < found->second.settled) return std::nullopt;
  const std::uint64_t at = count - found->second.settled;
  if (at >= found->second.open.size()) return std::nullopt;
  return found->second.open[at];
}

void Pool::computed(std::uint64_t member, std::uint64_t count) {
  const auto found = hands_.find(member);
  if (found == hands_.end()) return;
  Hand& hand = found->second;
  hand.computed = std::max(hand.computed, std::min(count, hand.settled + hand.open.size()));
}

void Pool::told(std::uint64_t member, std::uint64_t count) {
  const auto found = hands_.find(member);
  if (found == hands_.end()) return;
  Hand& hand = found->second;
  hand.told = std::max(hand.told, std::min(count, hand.settled + hand.open.size()));
}

std::uint64_t Pool::known_to(std::uint64_t member) const {
  const auto found = hands_.find(member);
  return found == hands_.end() ? 0 : std::max(found->second.told, found->second.settled);
}

std::uint64_t Pool::untold(std::uint64_t member) const {
  const auto found = hands_.find(member);
  return found == hands_.end() ? 0 : found->second.settled + found->second.open.size() - known_to(member);
}

void Pool::take_back(std::uint64_t member, std::uint64_t count) {
  const auto found = hands_.find(member);
  if (found == hands_.end()) return;
  Hand& hand = found->second;
  STRETTO_CHECK(count >= known_to(member), "member ", member, " keeps ", count, " batches of ", known_to(member),
                " that it knows of");
  while (hand.settled + hand.open.size() > count) {
    returned_.insert(std::ranges::upper_bound(returned_, hand.open.back()), hand.open.back());
    hand.open.pop_back();
  }
}

std::vector<std::uint64_t> Pool::give_back(std::uint64_t member, std::uint64_t applied, bool was_lost) {
  gone_.insert(member);
  const auto found = hands_.find(member);
  if (found == hands_.end()) return {};
  Hand& hand = found->second;
  check_count(member, hand, applied);
  auto first = static_cast<std::ptrdiff_t>(applied - std::min(applied, hand.settled));
  if (defect(Defect::members_all_go_back)) first = 0;
  if (defect(Defect::members_none_goes_back)) first = static_cast<std::ptrdiff_t>(hand.open.size());
  std::vector<std::uint64_t> dropped;
  const auto told = static_cast<std::ptrdiff_t>(hand.told - std::min(hand.told, hand.settled));
  auto computing = static_cast<std::ptrdiff_t>(hand.computed - std::min(hand.computed, hand.settled));
  if (defect(Defect::members_all_in_hand_suspect)) computing = 0;
  for (auto batch = hand.open.begin() + first; batch != hand.open.end(); ++batch) {
    const auto at = batch - hand.open.begin();
    const bool is_suspect = was_lost && at >= computing && at < told;
    if (is_suspect && ++losses_[*batch] >= kMostLosses) {
      dropped.push_back(*batch);
    } else {
      returned_.insert(std::ranges::upper_bound(returned_, *batch), *batch);
    }
  }
  hand.open.erase(hand.open.begin() + first, hand.open.end());
  if (hand.open.empty() || defect(Defect::members_settled_at_once)) hands_.erase(found);
  return dropped;
}

void Pool::settle(std::uint64_t member, std::uint64_t applied) {
  const auto found = hands_.find(member);
  if (found == hands_.end()) return;
  Hand& hand = found->second;
  check_count(member, hand, applied);
  for (; hand.settled < applied; ++hand.settled) {
    losses_.erase(hand.open.front());
    hand.open.pop_front();
  }
  if (hand.open.empty() && gone_.contains(member)) hands_.erase(found);
}

void Pool::check_count(std::uint64_t member, const Hand& hand, std::uint64_t applied) {
  STRETTO_CHECK(applied <= hand.settled + hand.open.size(), "member ", member, " has applied ", applied, " batches of ",
                hand.settled + hand.open.size());
}

std::vector<std::uint64_t> Pool::members() const {
  std::vector<std::uint64_t> members;
  for (const auto& [member, hand] : hands_) members.push_back(member);
  return members;
}

std::vector<std::uint64_t> Pool::in_hand(std::uint64_t member) const {
  const auto found = hands_.find(member);
  if (found == hands_.end()) return {};
  return {found->second.open.begin(), found->second.open.end()};
}

std::uint64_t Pool::dropped_in(std::span<const std::uint64_t> position) {
  const auto losses = parts_of(position).value_or(Parts{}).losses;
  std::uint64_t dropped = 0;
  for (std::size_t i = 1; i < losses.size(); i += 2) dropped += losses[i] >= kMostLosses ? 1 : 0;
  return dropped;
}

std::vector<std::uint64_t> Pool::position() const {
  std::vector<std::uint64_t> numbers = numbers_of(next_, returned_);
  for (const auto& [batch, losses] : losses_) {
    numbers.push_back(batch);
    numbers.push_back(losses);
  }
  return numbers;
}

std::vector<std::uint64_t> Pool::numbers() const {
  const std::vector<std::uint64_t> of_position = position();
  std::vector<std::uint64_t> numbers{of_position.size()};
  numbers.insert(numbers.end(), of_position.begin(), of_position.end());
  numbers.push_back(gone_.size());
  numbers.insert(numbers.end(), gone_.begin(), gone_.end());
  for (const auto& [member, hand] : hands_) {
    numbers.insert(numbers.end(), {member, hand.settled, hand.computed, hand.told, hand.open.size()});
    numbers.insert(numbers.end(), hand.open.begin(), hand.open.end());
  }
  return numbers;
}

Result<Pool> Pool::from_numbers(std::uint64_t batches, std::span<const std::uint64_t> numbers) {
  bool fits = true;
  const auto take = [&numbers, &fits](std::uint64_t count) {
    fits &= count <= numbers.size();
    const auto first = numbers.subspan(0, fits ? count : 0);
    numbers = numbers.subspan(first.size());
    return first;
  };
  const auto take_one = [&take] {
    const auto one = take(1);
    return one.empty() ? 0 : one[0];
  };
  auto pool = from_position(batches, take(take_one()));
  if (!pool) return pool;
  const auto gone = take(take_one());
  pool->gone_.insert(gone.begin(), gone.end());
  while (fits && !numbers.empty()) {
    Hand& hand = pool->hands_[take_one()];
    hand.settled = take_one();
    hand.computed = take_one();
    hand.told = take_one();
    const auto open = take(take_one());
    hand.open.assign(open.begin(), open.end());
    for (const std::uint64_t batch : open) fits &= batch < pool->next_;
  }
  if (!fits) return wrong_position();
  return pool;
}

std::vector<std::uint64_t> position_of_pool(const DispenserPosition& position) {
  return numbers_of(position.next, position.returned);
}

Result<DispenserPosition> position_in_pool(std::span<const std::uint64_t> of_pool) {
  const auto parts = parts_of(of_pool);
  if (!parts) return wrong_position();
  DispenserPosition position;
  position.next = parts->next;
  position.returned.assign(parts->returned.begin(), parts->returned.end());
  return position;
}

}  // namespace stretto
