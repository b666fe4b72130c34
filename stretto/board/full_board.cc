#include "stretto/board/full_board.h"

#include <algorithm>
#include <atomic>

#include "stretto/base/error.h"
#include "stretto/base/machine/pages.h"

namespace stretto {
namespace {

struct alignas(kCacheLine) Count {
  std::atomic<std::uint64_t> value{0};
};

std::uint64_t stride_of(const FullBoard::Shape& shape) {
  return staggered(std::max<std::uint64_t>(shape.bytes(), 1));
}

}  // namespace

struct FullBoard::Words {
  Count arrived;    // of all rounds: round r may be summed from (r + 1) · ranks on
  Count claimed;    // pieces, of all rounds, that a rank sums or has summed
  Count done;       // pieces, of all rounds, that are summed
  Count published;  // those of them whose result is there, where it comes from above
  Sleepers sleepers;
};

struct FullBoard::Seat {
  Count rounds;  // that this rank has arrived at
};

std::uint64_t FullBoard::bytes_needed(const Shape& shape, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t arrays = n + (shape.upward ? 2 : 1);
  return sizeof(Words) + n * sizeof(Seat) + arrays * stride_of(shape);
}

FullBoard::FullBoard(std::span<std::byte> memory, const Shape& shape, int rank, int ranks,
                     std::function<void(int)> ring)
    : shape_(shape),
      rank_(rank),
      ranks_(ranks),
      pieces_(shape.pieces()),
      stride_(stride_of(shape)),
      tree_(Combination::tree(ranks)),
      ring_(std::move(ring)),
      words_(*reinterpret_cast<Words*>(memory.data())),
      seats_(memory.data() + sizeof(Words)),
      inputs_(seats_ + static_cast<std::uint64_t>(ranks) * sizeof(Seat)),
      result_(inputs_ + static_cast<std::uint64_t>(ranks) * stride_),
      sum_(shape.upward ? result_ + stride_ : result_),
      completed_(shape.upward ? words_.published.value : words_.done.value),
      sources_(static_cast<std::size_t>(ranks)) {
  STRETTO_CHECK(memory.size() >= bytes_needed(shape, ranks), "a board in ", memory.size(), " bytes");
  STRETTO_CHECK(shape.piece_bytes % kCacheLine == 0, "pieces of ", shape.piece_bytes, " bytes");
  use_huge_pages({input(), shape.bytes()}, memory);
  if (rank != 0) return;
  use_huge_pages({result_, shape.bytes()}, memory);
  if (shape.upward) use_huge_pages({sum_, shape.bytes()}, memory);
}

FullBoard::Seat& FullBoard::seat_of(int rank) const {
  return reinterpret_cast<Seat*>(seats_)[rank];
}

Sleepers& FullBoard::sleepers() {
  return words_.sleepers;
}

bool FullBoard::complete() const {
  return completed_.load(std::memory_order_acquire) >= rounds_ * pieces_;
}

bool FullBoard::has_sum() const {
  return words_.done.value.load(std::memory_order_acquire) >= rounds_ * pieces_;
}

bool FullBoard::all_have_come() const {
  return words_.arrived.value.load(std::memory_order_acquire) >= rounds_ * static_cast<std::uint64_t>(ranks_);
}

bool FullBoard::has_come(int rank, std::uint64_t rounds) const {
  return seat_of(rank).rounds.value.load(std::memory_order_acquire) >= rounds;
}

void FullBoard::arrive() {
  STRETTO_CHECK(complete(), "rank ", rank_, " arrives at round ", rounds_, " before the last one is complete");
  ++rounds_;
  seat_of(rank_).rounds.value.store(rounds_, std::memory_order_relaxed);
  // Releases this rank's input and its reads of the last result. The last rank to come acquires those of all ranks.
  words_.arrived.value.fetch_add(1, std::memory_order_acq_rel);
  if (pieces_ > 1 && all_have_come()) words_.sleepers.wake(ranks_, shape_.helpers, ring_);
}

bool FullBoard::step() {
  if (!all_have_come()) return false;
  const std::uint64_t end = rounds_ * pieces_;
  std::uint64_t mine = words_.claimed.value.load(std::memory_order_relaxed);
  do {
    if (mine >= end) return false;
  } while (!words_.claimed.value.compare_exchange_weak(mine, mine + 1, std::memory_order_relaxed));
  sum_piece(mine - (end - pieces_));
  // Releases the piece; a rank that sees the last one counted acquires them all.
  const bool last = words_.done.value.fetch_add(1, std::memory_order_acq_rel) + 1 == end;
  if (!last) return true;
  if (shape_.upward) {
    words_.sleepers.wake_one(0, ring_);
  } else {
    wake_all();
  }
  return true;
}

void FullBoard::publish() {
  STRETTO_CHECK(shape_.upward && rank_ == 0 && has_sum() && !complete(), "rank ", rank_, " publishes round ", rounds_);
  // Releases the result; a rank that sees the round complete acquires it.
  words_.published.value.store(rounds_ * pieces_, std::memory_order_release);
  wake_all();
}

void FullBoard::wake_all() {
  if (shape_.ring_each) {
    words_.sleepers.wake(ranks_, ranks_, ring_);
  } else {
    words_.sleepers.wake_all(ranks_, ring_);
  }
}

void FullBoard::sum_piece(std::uint64_t piece) {
  const std::uint64_t from = piece * shape_.piece_bytes;
  const std::uint64_t bytes = std::min(shape_.piece_bytes, shape_.bytes() - from);
  for (int rank = 0; rank < ranks_; ++rank) sources_[static_cast<std::size_t>(rank)] = input_of(rank) + from;
  combine(tree_, shape_.type, shape_.op, sum_ + from, sources_, bytes / size_of(shape_.type),
          stores_for(shape_.bytes()));
}

}  // namespace stretto
