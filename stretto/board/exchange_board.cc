#include "stretto/board/exchange_board.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/machine/pages.h"

namespace stretto {
namespace {

/// A line that another core has in its own cache is slow to write: 9 GB/s on two cores of a Zen 4, and 35 where it has
/// been pushed out to the shared cache. So slots for chunks that are not tiny go round in more memory than a core's own
/// cache holds.
constexpr std::uint64_t kWindow = 2u << 20;
constexpr std::uint64_t kGoesRoundFrom = 4u << 10;

/// The largest chunk on the board.
std::uint64_t room_for(const ExchangeBoard::Shape& shape) {
  return std::min(shape.chunk_bytes, shape.bytes());
}

}  // namespace

/// One chunk of one rank. A small chunk travels in the same cache line as the word that says that it is there.
struct ExchangeBoard::Slot {
  std::atomic<std::uint64_t> shown{0};  // chunk + 1; released after the data
};

namespace {

std::uint64_t data_offset(const ExchangeBoard::Shape& shape) {
  return room_for(shape) <= kCacheLine - sizeof(std::uint64_t) ? sizeof(std::uint64_t) : kCacheLine;
}

}  // namespace

std::uint64_t ExchangeBoard::slots_for(const Shape& shape) {
  const std::uint64_t room = room_for(shape);
  return room < kGoesRoundFrom ? kFewestSlots : std::max(kFewestSlots, kWindow / room);
}

std::uint64_t ExchangeBoard::bytes_needed(const Shape& shape, int ranks) {
  return sizeof(Sleepers) + static_cast<std::uint64_t>(ranks) * slots_for(shape) *
                                round_up(data_offset(shape) + room_for(shape), kCacheLine);
}

ExchangeBoard::ExchangeBoard(std::span<std::byte> memory, const Shape& shape, int rank, int ranks,
                             std::function<void(int)> ring)
    : shape_(shape),
      rank_(rank),
      ranks_(ranks),
      chunks_(shape.chunks()),
      num_slots_(slots_for(shape)),
      data_at_(data_offset(shape)),
      stride_(round_up(data_offset(shape) + room_for(shape), kCacheLine)),
      tree_(Combination::tree(ranks)),
      ring_(std::move(ring)),
      sleepers_(*reinterpret_cast<Sleepers*>(memory.data())),
      slots_(memory.data() + sizeof(Sleepers)),
      sources_(static_cast<std::size_t>(ranks)) {
  STRETTO_CHECK(memory.size() >= bytes_needed(shape, ranks), "a board in ", memory.size(), " bytes");
  STRETTO_CHECK(shape.chunk_bytes % kCacheLine == 0, "chunks of ", shape.chunk_bytes, " bytes");
  use_huge_pages({slots_ + static_cast<std::uint64_t>(rank) * num_slots_ * stride_, num_slots_ * stride_}, memory);
}

ExchangeBoard::Slot& ExchangeBoard::slot(int rank, std::uint64_t chunk) const {
  const std::uint64_t index = static_cast<std::uint64_t>(rank) * num_slots_ + chunk % num_slots_;
  return *reinterpret_cast<Slot*>(slots_ + index * stride_);
}

std::byte* ExchangeBoard::data_of(Slot& slot) const {
  return reinterpret_cast<std::byte*>(&slot) + data_at_;
}

std::uint64_t ExchangeBoard::bytes_of(std::uint64_t chunk) const {
  return std::min(shape_.chunk_bytes, shape_.bytes() - offset_of(chunk));
}

Sleepers& ExchangeBoard::sleepers() {
  return sleepers_;
}

bool ExchangeBoard::has_come(int rank) const {
  return rank == rank_ || slot(rank, summed_).shown.load(std::memory_order_relaxed) > summed_;
}

void ExchangeBoard::arrive(const std::byte* mine, std::byte* sum) {
  STRETTO_CHECK(complete(), "rank ", rank_, " arrives before the last round is complete");
  end_ += chunks_;
  mine_ = mine;
  sum_ = sum;
  show();
}

bool ExchangeBoard::step() {
  const bool did = shown_ <= summed_ && show();
  return sum() || did;
}

bool ExchangeBoard::show() {
  if (shown_ == end_) return false;
  Slot& to = slot(rank_, shown_);
  copy_bytes(data_of(to), mine_ + offset_of(shown_), bytes_of(shown_), Stores::cached);
  to.shown.store(++shown_, std::memory_order_release);
  sleepers_.wake_all(ranks_, ring_);
  return true;
}

bool ExchangeBoard::sum() {
  if (summed_ == shown_) return false;
  for (; seen_ < ranks_; ++seen_) {
    Slot& from = slot(seen_, summed_);
    if (seen_ == rank_) {
      sources_[static_cast<std::size_t>(seen_)] = mine_ + offset_of(summed_);
    } else if (from.shown.load(std::memory_order_acquire) > summed_) {
      sources_[static_cast<std::size_t>(seen_)] = data_of(from);
    } else {
      return false;
    }
  }
  seen_ = 0;
  combine(tree_, shape_.type, shape_.op, sum_ + offset_of(summed_), sources_, bytes_of(summed_) / size_of(shape_.type),
          stores_for(shape_.bytes()));
  ++summed_;
  return true;
}

}  // namespace stretto
