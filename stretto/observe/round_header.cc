#include "stretto/observe/round_header.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace stretto {
namespace {

static_assert(sizeof(RankTimes) == 16 && std::is_trivially_copyable_v<RankTimes>, "RankTimes travels as it lies");

constexpr std::size_t kNumCounters = 4;

std::size_t fixed_bytes(int num_words) {
  return (4 * static_cast<std::size_t>(num_words) + kNumCounters) * sizeof(std::uint64_t);
}

std::byte* put(std::byte* out, std::uint64_t word) {
  std::memcpy(out, &word, sizeof word);
  return out + sizeof word;
}

std::byte* put(std::byte* out, const RankSet& set) {
  for (int i = 0; i < set.num_words(); ++i) out = put(out, set.word(i));
  return out;
}

std::uint64_t word_at(const std::byte* in, std::size_t index) {
  std::uint64_t word;
  std::memcpy(&word, in + index * sizeof word, sizeof word);
  return word;
}

void resize(RankSet& set, int ranks) {
  if (set.size() == ranks) {
    set.clear();
  } else {
    set = RankSet(ranks);
  }
}

/// No bits beyond the last rank, and nobody both fresh and stale.
bool sets_are_sound(const std::byte* in, int ranks, std::size_t num_words) {
  const int used = ranks % 64;
  const std::uint64_t beyond = used == 0 && ranks > 0 ? 0 : ~std::uint64_t{0} << used;
  for (std::size_t set = 0; set < 4; ++set) {
    if ((word_at(in, (set + 1) * num_words - 1) & beyond) != 0) return false;
  }
  for (std::size_t i = 0; i < num_words; ++i) {
    if ((word_at(in, num_words + i) & word_at(in, 2 * num_words + i)) != 0) return false;
  }
  return true;
}

bool times_are_sound(const std::byte* in, std::size_t count, int ranks) {
  std::int64_t last = -1;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t rank;
    std::memcpy(&rank, in + i * sizeof(RankTimes), sizeof rank);
    if (rank <= last || rank >= static_cast<std::int64_t>(ranks)) return false;
    last = rank;
  }
  return true;
}

}  // namespace

void RoundHeader::reset(int ranks) {
  for (RankSet* set : {&arrived, &fresh, &stale, &drained}) resize(*set, ranks);
  batches = 0;
  samples = 0;
  oldest_base = kNoBase;
  sum_of_bases = 0;
  times.clear();
}

void RoundHeader::merge(const RoundHeader& other) {
  arrived |= other.arrived;
  fresh |= other.fresh;
  stale |= other.stale;
  drained |= other.drained;
  batches += other.batches;
  samples += other.samples;
  oldest_base = std::min(oldest_base, other.oldest_base);
  sum_of_bases += other.sum_of_bases;

  // From behind, so that both lists merge in the memory of this one.
  std::size_t mine = times.size();
  std::size_t theirs = other.times.size();
  if (theirs == 0) return;
  times.resize(mine + theirs);
  for (std::size_t to = times.size(); theirs > 0;) {
    const bool take_mine = mine > 0 && times[mine - 1].rank > other.times[theirs - 1].rank;
    times[--to] = take_mine ? times[--mine] : other.times[--theirs];
  }
}

std::size_t RoundHeader::wire_bytes() const {
  return fixed_bytes(arrived.num_words()) + times.size() * sizeof(RankTimes);
}

void RoundHeader::write(std::byte* out) const {
  for (const RankSet* set : {&arrived, &fresh, &stale, &drained}) out = put(out, *set);
  for (std::uint64_t counter : {batches, samples, oldest_base, sum_of_bases}) out = put(out, counter);
  if (!times.empty()) std::memcpy(out, times.data(), times.size() * sizeof(RankTimes));
}

bool RoundHeader::read(std::span<const std::byte> in, int ranks) {
  const std::size_t num_words = ranks <= 64 ? 1 : (static_cast<std::size_t>(ranks) + 63) / 64;
  const std::size_t fixed = fixed_bytes(static_cast<int>(num_words));
  if (in.size() < fixed || (in.size() - fixed) % sizeof(RankTimes) != 0) return false;
  const std::size_t count = (in.size() - fixed) / sizeof(RankTimes);
  if (!sets_are_sound(in.data(), ranks, num_words) || !times_are_sound(in.data() + fixed, count, ranks)) return false;

  std::size_t next = 0;
  for (RankSet* set : {&arrived, &fresh, &stale, &drained}) {
    if (set->size() != ranks) *set = RankSet(ranks);
    for (std::size_t i = 0; i < num_words; ++i) set->word(static_cast<int>(i)) = word_at(in.data(), next++);
  }
  for (std::uint64_t* counter : {&batches, &samples, &oldest_base, &sum_of_bases})
    *counter = word_at(in.data(), next++);
  times.resize(count);
  if (count > 0) std::memcpy(times.data(), in.data() + fixed, count * sizeof(RankTimes));
  return true;
}

}  // namespace stretto
