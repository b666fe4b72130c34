#include "stretto/train/job/members/member_account.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <sstream>

#include "stretto/transport/job_memory.h"

namespace stretto {
namespace {

void put(std::string& text, std::uint64_t word) {
  text.append(reinterpret_cast<const char*>(&word), sizeof word);
}

/// Takes a word off the front of a text, or 0 where there is none.
std::uint64_t take(std::string_view& text) {
  std::uint64_t word = 0;
  if (text.size() < sizeof word) return text = {}, word;
  std::memcpy(&word, text.data(), sizeof word);
  text.remove_prefix(sizeof word);
  return word;
}

}  // namespace

std::string encoded(const RoundResult& result) {
  std::string text;
  put(text, result.round);
  put(text, result.policy.encode());
  put(text, static_cast<std::uint64_t>(result.header->ranks()));
  put(text, result.header->wire_bytes());
  const std::size_t at = text.size();
  text.resize(at + result.header->wire_bytes());
  result.header->write(reinterpret_cast<std::byte*>(text.data() + at));
  put(text, result.buckets.size());
  for (const auto bucket : result.buckets) {
    put(text, bucket.size());
    text.append(reinterpret_cast<const char*>(bucket.data()), bucket.size());
  }
  return text;
}

Result<void> with_decoded(std::string_view text, const std::function<void(const RoundResult&)>& use) {
  const auto bytes_of = [&text](std::uint64_t size) {
    const std::string_view front = text.substr(0, size);
    text.remove_prefix(front.size());
    return std::span(reinterpret_cast<const std::byte*>(front.data()), front.size());
  };
  const Error no_result{Errc::bad_input, "the result of a round that another member has sent is none", -1};
  const Round round = take(text);
  const Policy policy = Policy::decode(take(text));
  const std::uint64_t ranks = take(text), header_bytes = take(text);
  RoundHeader header;
  if (ranks > JobMemory::kMaxRanks || !header.read(bytes_of(header_bytes), static_cast<int>(ranks))) {
    return no_result;
  }
  std::vector<std::span<const std::byte>> buckets(std::min<std::uint64_t>(take(text), text.size()));
  for (auto& bucket : buckets) {
    const std::uint64_t bytes = take(text);
    if (bytes > text.size()) return no_result;
    bucket = bytes_of(bytes);
  }
  if (!text.empty()) return no_result;
  use({.round = round, .policy = policy, .header = &header, .buckets = buckets, .passed = {}});
  return {};
}

MemberAccount::MemberAccount(Changes& changes, RoundListener& next, AcrossWorlds across_worlds)
    : changes_(changes), next_(next), averaged_(across_worlds == AcrossWorlds::averaged) {
  entered();
  const View& first = changes.view();
  has_model_ = first.members[*first.place_of(changes.number())].held != kNoModel;
  changes.holds([this] { return holding(); });
}

MemberAccount::~MemberAccount() {
  changes_.holds(nullptr);
}

void MemberAccount::entered() {
  const std::lock_guard lock(mutex_);
  worlds_.emplace_back(changes_.view());
}

void MemberAccount::begun(CarriedSums* rounds) {
  const std::lock_guard lock(mutex_);
  worlds_ = {Seated(changes_.view())};
  rounds_ = rounds;
  has_begun_ = has_model_ = true;
}

void MemberAccount::deposited(std::uint64_t batches) {
  const std::lock_guard lock(mutex_);
  deposited_ += batches;
  changes_.handed_over(deposited_);
}

void MemberAccount::leaves_beside() {
  const std::lock_guard lock(mutex_);
  leaves_beside_ = true;
}

std::string MemberAccount::text() const {
  std::string text = stretto::text(handed_, ' ', batches_);
  for (const auto& [number, batches] : applied_) text += stretto::text(' ', number, ' ', batches);
  return text;
}

void MemberAccount::learns(std::string_view text) {
  const std::lock_guard lock(mutex_);
  std::istringstream words{std::string(text)};
  words >> handed_ >> batches_;
  applied_.clear();
  MemberNumber number = 0;
  std::uint64_t batches = 0;
  while (words >> number >> batches) applied_[number] = batches;
}

void MemberAccount::learned(const std::string& last_round) {
  const std::lock_guard lock(mutex_);
  last_round_ = last_round;
  has_model_ = true;
}

MemberAccount::Seated::Seated(const View& view) : epoch(view.epoch), complete(view.complete), left(view.left) {
  for (const PlacedMember& member : view.members) numbers.push_back(member.number);
}

void MemberAccount::add(BatchesApplied& applied, const Seated& seated, const RoundHeader& header) {
  for (const RankTimes& times : header.times) applied[seated.numbers[times.rank]] += times.batches;
}

const MemberAccount::Seated& MemberAccount::seated_in(Round round) const {
  // The rounds before a world may be fewer than those before one that nobody has begun.
  const auto is_before = [&](const Seated& world) { return world.complete <= round; };
  const auto last = std::find_if(worlds_.rbegin(), worlds_.rend(), is_before);
  STRETTO_CHECK(last != worlds_.rend(), "round ", round, " is of a world before that of epoch ", worlds_.front().epoch);
  return *last;
}

std::vector<std::uint64_t> MemberAccount::batches_by_number(int numbers) const {
  std::vector<std::uint64_t> batches(static_cast<std::size_t>(numbers));
  for (const auto& [number, applied] : applied_) batches.at(number) = applied;
  return batches;
}

RoundHeader MemberAccount::by_number(Round round, const RoundHeader& header, int numbers) const {
  const Seated& seated = seated_in(round);
  const auto number_of = [&seated](int rank) {
    return static_cast<int>(seated.numbers[static_cast<std::size_t>(rank)]);
  };
  RoundHeader all(numbers);
  for (const auto set : {&RoundHeader::arrived, &RoundHeader::fresh, &RoundHeader::stale, &RoundHeader::drained}) {
    for (int rank = 0; rank < header.ranks(); ++rank) {
      if ((header.*set).contains(rank)) (all.*set).insert(number_of(rank));
    }
  }
  RankSet here(numbers);
  for (const MemberNumber number : seated.numbers) here.insert(static_cast<int>(number));
  for (int number = 0; number < numbers; ++number) {  // lost, or not here yet
    if (!here.contains(number)) all.drained.insert(number);
  }
  all.batches = header.batches;
  all.samples = header.samples;
  all.oldest_base = header.oldest_base;
  all.sum_of_bases = header.sum_of_bases;
  for (RankTimes times : header.times) {
    times.rank = static_cast<std::uint16_t>(number_of(times.rank));
    all.times.push_back(times);
  }
  if (round + 1 == handed_) {
    for (const auto& [number, batches] : left_) {
      all.times.push_back({.rank = static_cast<std::uint16_t>(number), .batches = static_cast<std::uint16_t>(batches)});
    }
  }
  std::ranges::sort(all.times, {}, &RankTimes::rank);
  return all;
}

void MemberAccount::count(const RoundResult& result) {
  const Seated& seated = seated_in(result.round);
  add(applied_, seated, *result.header);
  batches_ += result.header->batches;
  handed_ = result.round + 1;
  left_.clear();
  for (const auto& [number, batches] : seated.left) {
    const std::uint64_t more = batches - std::min(batches, applied_.of(number));
    if (more == 0) continue;
    left_[number] = more;
    applied_[number] += more;
    batches_ += more;
  }
}

void MemberAccount::with_left(const RoundResult& result, const std::function<void(const RoundResult&)>& hear) const {
  if (left_.size() == 0) return hear(result);
  RoundHeader header = *result.header;
  if (header.batches == 0) header.oldest_base = result.round;
  for (const auto& [number, batches] : left_) {
    header.batches += batches;
    header.sum_of_bases += batches * result.round;
  }
  RoundResult all = result;
  all.header = &header;
  hear(all);
}

void MemberAccount::before(const RoundResult& result) {
  if (averaged_) {
    // holding() is asked for under the same lock, after the rank has been stopped: it counts the round, or this does
    // not.
    const std::lock_guard lock(mutex_);
    if (changes_.changing()) {
      throw Failure(
          {Errc::members_changed, stretto::text("the members of the job change before round ", result.round), -1});
    }
    count(result);
  }
  with_left(result, [this](const RoundResult& all) { next_.before(all); });
}

void MemberAccount::after(const RoundResult& result) {
  if (!averaged_) {
    const std::lock_guard lock(mutex_);
    count(result);
  } else {
    if (result.empty()) before(result);
    RoundResult header = result;
    header.buckets = {};
    last_round_ = encoded(header);
  }
  with_left(result, [this](const RoundResult& all) { next_.after(all); });
}

Holding MemberAccount::holding() const {
  const std::lock_guard lock(mutex_);
  Holding holding{.held = has_model_ ? static_cast<RoundsHeld>(handed_) : kNoModel, .applied = applied_};
  if (rounds_ != nullptr) {
    PartialAllreduce& carried = rounds_->carried();
    for (Round round = handed_; round < carried.complete(); ++round) {
      const auto header = carried.header_of(round);
      STRETTO_CHECK(header.has_value(), "round ", round, " is complete, and not handed over, and its header is gone");
      add(holding.applied, worlds_.front(), *header);
      holding.held = static_cast<RoundsHeld>(round) + 1;
    }
  }
  const std::uint64_t pending = num_pending_beside(holding.applied);
  holding.pending = pending > 0 && !leaves_beside_;
  if (leaves_beside_) holding.beside = pending;
  return holding;
}

std::uint64_t MemberAccount::num_pending_beside(const BatchesApplied& applied) const {
  return deposited_ - std::min(deposited_, applied.of(changes_.number()));
}

std::uint64_t MemberAccount::num_pending() const {
  const std::lock_guard lock(mutex_);
  return num_pending_beside(applied_);
}

}  // namespace stretto
