#include "stretto/transport/shared_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/description.h"
#include "stretto/base/doorbell.h"
#include "stretto/base/machine/pages.h"
#include "stretto/base/machine/process_limits.h"

namespace stretto {
namespace {

constexpr auto kRoomTimeout = std::chrono::seconds(30);  // to ranks that have still to give regions back
/// To a rank that describes a region. It may wait for room meanwhile.
constexpr auto kDescriptionTimeout = kRoomTimeout + std::chrono::seconds(10);

constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
constexpr std::uint32_t kAnySleeper = ~std::uint32_t{0};

/// A text that is written by one rank and read by the others.
template <std::size_t N>
struct Words {
  std::array<char, N> text{};

  void set(const std::string& words) {
    const std::size_t length = std::min(words.size(), N - 1);
    std::memcpy(text.data(), words.data(), length);
    text[length] = '\0';
  }
  std::string get() const { return text.data(); }
};

/// What a word says that names the next entry of the list: one of these, or first_entry + its index.
enum Link : std::uint32_t { nobody, being_written, none_is_free, first_entry };

/// Regions that hold much begin at huge pages.
std::uint64_t alignment(std::uint64_t bytes) {
  return bytes >= kHugePage ? kHugePage : kPage;
}

}  // namespace

/// An entry of the list. A rank stands on the entry that it took last. Everything but the three words is written by the
/// rank that was first, before it names the entry in the one before (release), and read by the others after they have
/// found it there (acquire).
struct SharedArena::Region {
  std::atomic<std::uint32_t> next;  // a Link
  std::atomic<std::uint32_t>
      holders;                        // ranks that have not given it back; and one more until its bytes are zeros again
  std::atomic<std::uint32_t> behind;  // ranks that have not gone on to the next entry
  std::int32_t rank;                  // the rank that was first
  std::uint64_t bytes;
  std::uint64_t at;     // kNowhere: there was too little room,
  std::uint64_t whole;  // in pages,
  std::uint64_t left;   // in the largest gap
  std::uint64_t hash;   // of the whole description
  Words<968> description;

  bool free() const {
    return holders.load(std::memory_order_acquire) == 0 && behind.load(std::memory_order_acquire) == 0;
  }
};

struct SharedArena::Table {
  std::atomic<std::uint32_t> disagreement;
  std::int32_t rank;  // the rank that has seen it
  std::uint64_t region;
  Words<992> message;
  std::atomic<std::uint32_t> first;  // a Link, as Region::next
  std::uint32_t used;                // entries that have ever been taken; of the rank that describes one
  std::atomic<std::uint32_t> freed;  // grows when an entry or its bytes have become free
  Region regions[kMaxRegions];
};

/// A place for a region.
struct SharedArena::Room {
  std::uint64_t at = kNowhere;
  std::uint64_t left = 0;  // bytes of the largest gap
};

std::uint64_t SharedArena::overhead() {
  return round_up(sizeof(Table), kPage);
}

SharedRegion::~SharedRegion() {
  if (arena_ != nullptr) arena_->give_back(entry_);
}

SharedArena::SharedArena(std::span<std::byte> memory, int rank, int ranks, std::function<void(int)> ring,
                         bool interleaved)
    : table_(*reinterpret_cast<Table*>(memory.data())),
      memory_(memory),
      rank_(rank),
      ranks_(ranks),
      ring_(std::move(ring)),
      interleaved_(interleaved) {
  STRETTO_CHECK(memory.size() >= overhead(), memory.size(), " bytes for the list of regions");
}

Result<SharedRegion> SharedArena::take(std::uint64_t bytes, const std::string& description) {
  if (failed_) return *failed_;
  const auto fail = [this](Error error) { return *(failed_ = std::move(error)); };
  const std::uint32_t link = find_next(bytes, description);
  if (link == being_written) {
    return fail({Errc::timeout, text("a rank began to describe \"", words_of(description), "\" and did not finish")});
  }
  if (link == none_is_free) {
    return fail({Errc::unavailable, text("more than ", kMaxRegions, " collectives at a time that share memory")});
  }
  const std::uint32_t entry = link - first_entry;
  go_on_to(entry);
  SharedRegion region(*this, entry);
  auto memory = look_at(table_.regions[entry], bytes, description);
  if (!memory) return memory.error();
  region.bytes_ = *memory;
  return region;
}

/// Returns being_written if the rank that describes it does not come to an end.
std::uint32_t SharedArena::find_next(std::uint64_t bytes, const std::string& description) {
  std::atomic<std::uint32_t>& next = stands_on_ != nullptr ? stands_on_->next : table_.first;
  std::uint32_t link = nobody;
  if (next.compare_exchange_strong(link, being_written, std::memory_order_acquire)) {
    link = describe(bytes, description);
    next.store(link, std::memory_order_release);
    futex_wake(next, kAnySleeper, true);
    return link;
  }
  const SteadyClock clock;
  const TimePoint until = clock.now() + kDescriptionTimeout;
  while (link == being_written && clock.now() < until) {
    futex_sleep({&next, being_written}, kAnySleeper, until - clock.now(), true);
    link = next.load(std::memory_order_acquire);
  }
  return link;
}

/// One rank at a time: each entry is described by a rank that has found the one before it in the list.
std::uint32_t SharedArena::describe(std::uint64_t bytes, const std::string& description) {
  const SteadyClock clock;
  const TimePoint until = clock.now() + kRoomTimeout;
  const auto none_given_back = static_cast<std::uint32_t>(ranks_);
  std::uint32_t entry = kMaxRegions;
  Room room;
  for (;;) {
    const std::uint32_t seen = table_.freed.load(std::memory_order_acquire);
    entry = free_entry();
    room = find_room(bytes, 0);
    if (entry < kMaxRegions && room.at != kNowhere) break;
    const bool will_be =
        (entry < kMaxRegions || entries_will_be_free()) && find_room(bytes, none_given_back).at != kNowhere;
    if (!will_be || interleaved_ || clock.now() >= until) break;
    futex_sleep({&table_.freed, seen}, kAnySleeper, until - clock.now(), true);
  }
  if (entry == kMaxRegions) return none_is_free;
  table_.used = std::max(table_.used, entry + 1);
  Region& region = table_.regions[entry];
  region.rank = rank_;
  region.bytes = bytes;
  region.at = room.at;
  region.whole = round_up(bytes, alignment(bytes));
  region.left = room.left;
  region.hash = hash_of(description);
  region.description.set(description);
  region.next.store(nobody, std::memory_order_relaxed);
  region.behind.store(static_cast<std::uint32_t>(ranks_), std::memory_order_relaxed);
  region.holders.store(static_cast<std::uint32_t>(ranks_) + 1, std::memory_order_relaxed);
  return first_entry + entry;
}

/// kMaxRegions if there is none.
std::uint32_t SharedArena::free_entry() const {
  std::uint32_t entry = 0;
  while (entry < table_.used && !table_.regions[entry].free()) ++entry;
  return entry;
}

/// Whether a rank has given back a region that others have not, but for the one that this rank stands on: that stays
/// until this rank goes on.
bool SharedArena::entries_will_be_free() const {
  const auto all = static_cast<std::uint32_t>(ranks_) + 1;
  return std::any_of(table_.regions, table_.regions + table_.used, [&](const Region& region) {
    return &region != stands_on_ && region.holders.load(std::memory_order_acquire) != all;
  });
}

/// The first gap of `bytes` between the regions that more than `at_most_holders` hold.
SharedArena::Room SharedArena::find_room(std::uint64_t bytes, std::uint32_t at_most_holders) const {
  if (bytes == 0) return {.at = 0};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;  // begin and end
  for (const Region& region : std::span(table_.regions, table_.used)) {
    if (region.holders.load(std::memory_order_acquire) <= at_most_holders) continue;
    if (region.bytes > 0 && region.at != kNowhere) taken.emplace_back(region.at, region.at + region.whole);
  }
  std::ranges::sort(taken);
  taken.emplace_back(memory_.size(), memory_.size());
  Room room;
  std::uint64_t from = overhead();
  for (const auto& [begin, end] : taken) {
    const std::uint64_t at = round_up(from, alignment(bytes));
    if (at <= begin) room.left = std::max(room.left, begin - at);
    if (at <= begin && round_up(bytes, alignment(bytes)) <= begin - at) {
      room.at = at;
      break;
    }
    from = end;
  }
  return room;
}

void SharedArena::go_on_to(std::uint32_t entry) {
  Region* const before = std::exchange(stands_on_, &table_.regions[entry]);
  ++taken_;
  if (before != nullptr && before->behind.fetch_sub(1, std::memory_order_acq_rel) == 1) tell_of_space();
}

Result<std::span<std::byte>> SharedArena::look_at(const Region& region, std::uint64_t bytes,
                                                  const std::string& description) {
  if (region.bytes != bytes || region.hash != hash_of(description)) {
    failed_ = disagree(region, description);
    return *failed_;
  }
  if (region.at == kNowhere) {
    return Error{Errc::unavailable,
                 text("too little shared memory: \"", words_of(description), "\" of ", ranks_, " ranks needs ",
                      format_bytes(bytes), ", there are ", format_bytes(region.left),
                      "; take fewer ranks or smaller buffers, or raise the limit")};
  }
  const auto memory = memory_.subspan(region.at, bytes);
  // Advice only: on a machine that keeps no huge pages for shared memory nothing changes.
  if (bytes >= kHugePage) ::madvise(memory.data(), region.whole, MADV_HUGEPAGE);
  return memory;
}

/// The last rank to give it back makes zeros of the bytes.
void SharedArena::give_back(std::uint32_t entry) {
  Region& region = table_.regions[entry];
  if (region.holders.fetch_sub(1, std::memory_order_acq_rel) != 2) return;
  if (region.bytes > 0 && region.at != kNowhere) {
    const auto memory = memory_.subspan(region.at, region.whole);
    if (::madvise(memory.data(), memory.size(), MADV_REMOVE) != 0) std::memset(memory.data(), 0, memory.size());
  }
  region.holders.store(0, std::memory_order_release);
  tell_of_space();
}

void SharedArena::tell_of_space() {
  table_.freed.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(table_.freed, kAnySleeper, true);
}

Error SharedArena::disagree(const Region& region, const std::string& description) {
  Error error{Errc::bad_input, disagreement_between(rank_, description, region.rank, region.description.get()), rank_};
  std::uint32_t expected = nobody;
  if (table_.disagreement.compare_exchange_strong(expected, being_written, std::memory_order_acquire)) {
    table_.message.set(error.message);
    table_.rank = rank_;
    table_.region = taken_ - 1;
    table_.disagreement.store(first_entry, std::memory_order_release);
  }
  ring_others();
  return error;
}

std::optional<Error> SharedArena::disagreement(std::uint64_t regions) const {
  if (table_.disagreement.load(std::memory_order_acquire) != first_entry || table_.region >= regions) {
    return std::nullopt;
  }
  return Error{Errc::bad_input, table_.message.get(), table_.rank};
}

void SharedArena::ring_others() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_) ring_(rank);
  }
}

}  // namespace stretto
