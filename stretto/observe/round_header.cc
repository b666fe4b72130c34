#include "stretto/observe/round_header.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace stretto {

namespace {

static_assert(sizeof(RankTimes) == 16 && std::is_trivially_copyable_v<RankTimes>, "RankTimes travels as it lies");

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kFixedWords = 5;  // what there is, and 4 counters
constexpr std::size_t kUnnamedWords = 2;
constexpr std::uint64_t kHasUnnamed = 1 << 4;  // bits 0 to 3: arrived, fresh, stale, drained
constexpr std::uint64_t kHasNoTimes = 1 << 5;  // entries without: rank and batches alone, the first bytes of RankTimes
constexpr std::size_t kEntryWithoutTimes = 4;
static_assert(offsetof(RankTimes, batches) == 2 && offsetof(RankTimes, computed) == kEntryWithoutTimes);

std::size_t entry_bytes(std::uint64_t what) {
  return (what & kHasNoTimes) != 0 ? kEntryWithoutTimes : sizeof(RankTimes);
}

bool has_times(const RankTimes& of) {
  return of.computed != 0 || of.waited != 0 || of.late != 0;
}

std::size_t num_words_of(int ranks) {
  return static_cast<std::size_t>(RankSet(ranks).num_words());
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

/// Words in front of the times of a header whose first word is `what`.
std::size_t words_before_times(std::uint64_t what, std::size_t num_words) {
  const auto sets = static_cast<std::size_t>(std::popcount(what & (kHasUnnamed - 1)));
  return kFixedWords + ((what & kHasUnnamed) != 0 ? kUnnamedWords : 0) + sets * num_words;
}

/// A set as it lies in a header; null: it is empty.
struct SetOnWire {
  const std::byte* at = nullptr;
  std::size_t num_words = 0;

  std::uint64_t word(std::size_t i) const { return at == nullptr ? 0 : word_at(at, i); }
  std::uint64_t count() const {
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < num_words; ++i) n += static_cast<std::uint64_t>(std::popcount(word(i)));
    return n;
  }
};

struct SetsOnWire {
  SetsOnWire(const std::byte* in, std::size_t num_words) {
    const std::uint64_t what = word_at(in, 0);
    std::size_t next = kFixedWords + ((what & kHasUnnamed) != 0 ? kUnnamedWords : 0);
    for (std::size_t i = 0; i < 4; ++i) {
      sets[i].num_words = num_words;
      if ((what >> i & 1) == 0) continue;
      sets[i].at = in + next * kWord;
      next += num_words;
    }
    if ((what & kHasUnnamed) == 0) return;
    arrived = word_at(in, kFixedWords) & 0xffffffffu;
    fresh = word_at(in, kFixedWords) >> 32;
    stale = word_at(in, kFixedWords + 1);
  }

  /// None that is said to be there is empty, no bits beyond the last rank, nobody both fresh and stale, and no more
  /// ranks in all than there are.
  bool sound(std::uint64_t what, int ranks) const {
    const int used = ranks % 64;
    const std::uint64_t beyond = used == 0 && ranks > 0 ? 0 : ~std::uint64_t{0} << used;
    for (std::size_t i = 0; i < 4; ++i) {
      if ((what >> i & 1) != 0 && sets[i].count() == 0) return false;
      if ((sets[i].word(sets[i].num_words - 1) & beyond) != 0) return false;
    }
    for (std::size_t i = 0; i < sets[1].num_words; ++i) {
      if ((sets[1].word(i) & sets[2].word(i)) != 0) return false;
    }
    const auto most = static_cast<std::uint64_t>(ranks);
    if ((what & kHasUnnamed) != 0 && arrived + fresh + stale == 0) return false;
    if (arrived > most || fresh > most || stale > most) return false;
    return sets[0].count() + arrived <= most && sets[1].count() + fresh + sets[2].count() + stale <= most;
  }

  SetOnWire sets[4];
  std::uint64_t arrived = 0, fresh = 0, stale = 0;
};

RankTimes entry_at(const std::byte* in, std::size_t index, std::size_t entry) {
  RankTimes of;
  std::memcpy(&of, in + index * entry, entry);
  return of;
}

/// Ascending by rank, and short where none has a time.
bool entries_are_sound(const std::byte* in, std::size_t count, std::uint64_t what, int ranks) {
  std::int64_t last = -1;
  bool any_has_times = false;
  for (std::size_t i = 0; i < count; ++i) {
    const RankTimes of = entry_at(in, i, entry_bytes(what));
    if (of.rank <= last || of.rank >= static_cast<std::int64_t>(ranks)) return false;
    last = of.rank;
    any_has_times |= has_times(of);
  }
  const bool is_short = ranks > RoundHeader::kMaxNamedRanks && count > 0 && !any_has_times;
  return is_short == ((what & kHasNoTimes) != 0);
}

}  // namespace

void RoundHeader::reset(int ranks) {
  for (RankSet* set : {&arrived, &fresh, &stale, &drained}) resize(*set, ranks);
  batches = 0;
  samples = 0;
  oldest_base = kNoBase;
  sum_of_bases = 0;
  times.clear();
  unnamed = {};
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
  unnamed.arrived += other.unnamed.arrived;
  unnamed.fresh += other.unnamed.fresh;
  unnamed.stale += other.unnamed.stale;

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

void RoundHeader::forget_names() {
  unnamed.arrived += static_cast<std::uint32_t>(arrived.count());
  unnamed.fresh += static_cast<std::uint32_t>(fresh.count());
  unnamed.stale += static_cast<std::uint32_t>(stale.count());
  for (RankSet* set : {&arrived, &fresh, &stale}) *set = RankSet(ranks());
  times.clear();
}

void RoundHeader::forget_all_but(Names names) {
  if (names == Names::none) return forget_names();
  if (names == Names::times) return;
  for (RankTimes& of : times) of = {.rank = of.rank, .batches = of.batches};
}

std::uint64_t RoundHeader::what_there_is() const {
  std::uint64_t what = names_ranks() ? 0 : kHasUnnamed;
  if (ranks() > kMaxNamedRanks && !times.empty() && std::ranges::none_of(times, has_times)) what |= kHasNoTimes;
  int bit = 0;
  for (const RankSet* set : {&arrived, &fresh, &stale, &drained}) what |= std::uint64_t{!set->empty()} << bit++;
  return what;
}

std::size_t RoundHeader::wire_bytes() const {
  const std::uint64_t what = what_there_is();
  return words_before_times(what, num_words_of(ranks())) * kWord + times.size() * entry_bytes(what);
}

std::size_t RoundHeader::max_wire_bytes(int ranks, Names names) {
  const std::size_t sets = (names == Names::none ? 1 : 4) * num_words_of(ranks);
  const bool is_short = names == Names::batches && ranks > kMaxNamedRanks;
  const std::size_t entry = names == Names::none ? 0 : is_short ? kEntryWithoutTimes : sizeof(RankTimes);
  return (kFixedWords + kUnnamedWords + sets) * kWord + static_cast<std::size_t>(ranks) * entry;
}

void RoundHeader::write(std::byte* out) const {
  const std::uint64_t what = what_there_is();
  out = put(out, what);
  for (std::uint64_t counter : {batches, samples, oldest_base, sum_of_bases}) out = put(out, counter);
  if (!names_ranks()) {
    out = put(out, unnamed.arrived | static_cast<std::uint64_t>(unnamed.fresh) << 32);
    out = put(out, unnamed.stale);
  }
  for (const RankSet* set : {&arrived, &fresh, &stale, &drained}) {
    if (!set->empty()) out = put(out, *set);
  }
  for (const RankTimes& of : times) {
    std::memcpy(out, &of, entry_bytes(what));
    out += entry_bytes(what);
  }
}

bool RoundHeader::read(std::span<const std::byte> in, int ranks) {
  const std::size_t num_words = num_words_of(ranks);
  if (in.size() < kFixedWords * kWord) return false;
  const std::uint64_t what = word_at(in.data(), 0);
  const std::size_t fixed = words_before_times(what, num_words) * kWord;
  const std::size_t entry = entry_bytes(what);
  if (what >= 2 * kHasNoTimes || in.size() < fixed || (in.size() - fixed) % entry != 0) return false;
  const SetsOnWire wire(in.data(), num_words);
  const std::size_t count = (in.size() - fixed) / entry;
  if (!wire.sound(what, ranks) || !entries_are_sound(in.data() + fixed, count, what, ranks)) return false;

  reset(ranks);
  std::size_t next = 1;
  for (std::uint64_t* counter : {&batches, &samples, &oldest_base, &sum_of_bases})
    *counter = word_at(in.data(), next++);
  unnamed = {static_cast<std::uint32_t>(wire.arrived), static_cast<std::uint32_t>(wire.fresh),
             static_cast<std::uint32_t>(wire.stale)};
  const SetOnWire* from = wire.sets;
  for (RankSet* set : {&arrived, &fresh, &stale, &drained}) {
    for (std::size_t i = 0; from->at != nullptr && i < num_words; ++i) set->word(static_cast<int>(i)) = from->word(i);
    ++from;
  }
  times.resize(count);
  for (std::size_t i = 0; i < count; ++i) times[i] = entry_at(in.data() + fixed, i, entry);
  return true;
}

ContributionFacts operator+(const ContributionFacts& a, const ContributionFacts& b) {
  ContributionFacts sum = b;
  sum.batches += a.batches;
  sum.samples += a.samples;
  sum.oldest_base = std::min(a.oldest_base, b.oldest_base);
  sum.sum_of_bases += a.sum_of_bases;
  sum.times.computed += a.times.computed;
  sum.times.waited += a.times.waited;
  sum.times.late += a.times.late;
  sum.times.batches = static_cast<std::uint16_t>(sum.times.batches + a.times.batches);
  return sum;
}

void enter(RoundHeader& header, std::uint64_t round, int rank, const ContributionFacts& facts, bool counts) {
  (facts.oldest_base == round ? header.fresh : header.stale).insert(rank);
  if (!counts) return;
  header.batches += facts.batches;
  header.samples += facts.samples;
  header.oldest_base = std::min(header.oldest_base, facts.oldest_base);
  header.sum_of_bases += facts.sum_of_bases;
  header.times.push_back(facts.times);
  header.times.back().rank = static_cast<std::uint16_t>(rank);
}

}  // namespace stretto
