#include "stretto/ordering/runtime/fused_board.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "stretto/base/machine/pages.h"
#include "stretto/kernel/combination.h"
#include "stretto/kernel/combine.h"

namespace stretto {
namespace {

constexpr std::size_t kMaxCompositionBytes = 2048;
/// Trees kept: one where all bring something, few where some do not.
constexpr std::size_t kMaxTrees = 64;
/// Bytes put in, summed or taken out before a ring that is due: some 20 µs.
constexpr std::uint64_t kMostPutOff = 128 << 10;

struct alignas(kCacheLine) SharedWord {
  std::atomic<std::uint64_t> value{0};
};

/// A count of one use of a slot: the use, from 1, and the count in it. An older use counts as none.
std::uint64_t counted(std::uint64_t use, std::uint64_t count) {
  return use << 32 | count;
}
std::uint64_t count_in(std::uint64_t word, std::uint64_t use) {
  return word >> 32 == use ? word & 0xffffffff : 0;
}

}  // namespace

struct FusedBoard::SlotWords {
  SharedWord arrived;  // members, of all uses; release of what they put in
  SharedWord claimed;  // pieces of this use that a member sums or has summed: counted()
  SharedWord done;     // pieces of this use that are summed: counted(); release of the sums
  SharedWord taken;    // members that have taken the sum out, of all uses; release of their reads
  SharedWord wanted;   // 1: some member waits for the slot; set before a look at `taken`, taken back after adding to it
};

/// What a member says with the first chunk of a buffer, published by `arrived`.
struct FusedBoard::Seat {
  std::atomic<std::uint64_t> uses{0};  // of the slot that the member has come to: to say who is missing
  std::uint64_t hash = 0;
  std::uint64_t lends = 0;  // 1 + where in the lent memory its part lies; 0: it puts it in
  std::uint64_t sum = 0;    // 1 + where in the lent memory it would read the sum; 0: it takes it out
  std::uint32_t brings = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t composition_bytes = 0;
  char composition[kMaxCompositionBytes] = {};
};

namespace {

std::uint64_t header_room(int ranks) {
  const bool named = ranks <= RoundHeader::kMaxNamedRanks;
  return round_up(RoundHeader::max_wire_bytes(ranks, named ? RoundHeader::Names::times : RoundHeader::Names::none),
                  kCacheLine);
}

}  // namespace

FusedBoard::Shape FusedBoard::shape_for(std::uint64_t fusion_bytes) {
  Shape shape;
  shape.piece_bytes = std::min(shape.piece_bytes, round_up(fusion_bytes, kCacheLine));
  shape.chunk_bytes = std::min(shape.chunk_bytes, round_up(fusion_bytes, shape.piece_bytes));
  return shape;
}

std::uint64_t FusedBoard::bytes_needed(const Shape& shape, const ProcessSet& set, int ranks) {
  const auto members = static_cast<std::uint64_t>(set.size());
  const std::uint64_t seat_bytes = round_up(sizeof(Seat), kCacheLine) + header_room(ranks);
  const std::uint64_t slot_bytes =
      sizeof(SlotWords) + members * seat_bytes + (members + 1) * staggered(shape.chunk_bytes);
  return static_cast<std::uint64_t>(shape.slots) * round_up(slot_bytes, kPage);
}

FusedBoard::FusedBoard(std::span<std::byte> memory, const Shape& shape, const ProcessSet& set, int ranks,
                       std::function<void(int)> ring, std::function<void(const Error&)> fail, std::span<std::byte> lent,
                       bool one_at_a_time)
    : memory_(memory),
      shape_(shape),
      set_(set),
      ranks_(ranks),
      ring_(std::move(ring)),
      fail_(std::move(fail)),
      lent_(lent),
      one_at_a_time_(one_at_a_time) {
  STRETTO_CHECK(memory.size() >= bytes_needed(shape, set, ranks), "a board in ", memory.size(), " bytes");
  STRETTO_CHECK(shape.piece_bytes % kCacheLine == 0 && shape.chunk_bytes % shape.piece_bytes == 0, "pieces of ",
                shape.piece_bytes, " bytes in chunks of ", shape.chunk_bytes);
}

// ---- where things lie ----

std::byte* FusedBoard::slot(std::uint64_t chunk) const {
  const auto slots = static_cast<std::uint64_t>(shape_.slots);
  return memory_.data() + chunk % slots * (bytes_needed(shape_, set_, ranks_) / slots);
}

FusedBoard::SlotWords& FusedBoard::words(std::uint64_t chunk) const {
  return *reinterpret_cast<SlotWords*>(slot(chunk));
}

FusedBoard::Seat& FusedBoard::seat(std::uint64_t chunk, int member) const {
  const std::uint64_t seat_bytes = round_up(sizeof(Seat), kCacheLine) + header_room(ranks_);
  return *reinterpret_cast<Seat*>(slot(chunk) + sizeof(SlotWords) + static_cast<std::uint64_t>(member) * seat_bytes);
}

std::byte* FusedBoard::header_at(std::uint64_t chunk, int member) const {
  return reinterpret_cast<std::byte*>(&seat(chunk, member)) + round_up(sizeof(Seat), kCacheLine);
}

std::byte* FusedBoard::input(std::uint64_t chunk, int member) const {
  return reinterpret_cast<std::byte*>(&seat(chunk, set_.size())) +
         static_cast<std::uint64_t>(member) * staggered(shape_.chunk_bytes);
}

// ---- buffers and their chunks ----

void FusedBoard::start(FusedRound round) {
  STRETTO_CHECK(round.number == begun_, "buffer ", round.number, " of set ", set_.number(), " after ", begun_);
  ++begun_;
  Flight flight;
  flight.bytes = round.count * size_of(round.type);
  flight.chunks = std::max<std::uint64_t>(1, (flight.bytes + shape_.chunk_bytes - 1) / shape_.chunk_bytes);
  flight.first_chunk = chunks_begun_;
  flight.header.reset(ranks_);
  if (round.brings && round.parts.size() == 1 && flight.bytes > 0) {
    flight.lends = place_in_lent(round.parts.front().mine, flight.bytes);
  }
  flight.round = std::move(round);
  chunks_begun_ += flight.chunks;
  flights_.push_back(std::move(flight));
}

/// Where these bytes lie in the memory that all members see, if they do.
std::optional<std::uint64_t> FusedBoard::place_in_lent(const std::byte* from, std::uint64_t bytes) const {
  const std::less_equal<const std::byte*> before;
  if (from == nullptr || !before(lent_.data(), from) || !before(from + bytes, lent_.data() + lent_.size())) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(from - lent_.data());
}

std::optional<FusedResult> FusedBoard::take_result() {
  if (flights_.empty() || !flights_.front().over) return std::nullopt;
  Flight& flight = flights_.front();
  FusedResult result{flight.round.number, flight.bytes > 0 && !flight.bringing.empty(), flight.shared,
                     std::move(flight.header)};
  flights_.pop_front();
  return result;
}

/// Requires: begun here, and not handed over.
FusedBoard::Flight& FusedBoard::flight_of(std::uint64_t chunk) {
  const auto behind = std::ranges::upper_bound(flights_, chunk, {}, &Flight::first_chunk);
  return *std::prev(behind);
}

std::uint64_t FusedBoard::bytes_of_chunk(const Flight& flight, std::uint64_t chunk) const {
  return std::min(shape_.chunk_bytes, flight.bytes - (chunk - flight.first_chunk) * shape_.chunk_bytes);
}

std::uint64_t FusedBoard::pieces_of_chunk(const Flight& flight, std::uint64_t chunk) const {
  return (bytes_of_chunk(flight, chunk) + shape_.piece_bytes - 1) / shape_.piece_bytes;
}

bool FusedBoard::all_have_come(std::uint64_t chunk) const {
  return words(chunk).arrived.value.load(std::memory_order_acquire) >=
         use_of(chunk) * static_cast<std::uint64_t>(set_.size());
}

bool FusedBoard::has_come(std::uint64_t chunk, int member) const {
  return seat(chunk, member).uses.load(std::memory_order_acquire) >= use_of(chunk);
}

bool FusedBoard::complete(const Flight& flight, std::uint64_t chunk) const {
  if (flight.bringing.empty()) return true;  // there is nothing to sum
  return count_in(words(chunk).done.value.load(std::memory_order_acquire), use_of(chunk)) ==
         pieces_of_chunk(flight, chunk);
}

bool FusedBoard::lacks(int rank) const {
  const int member = set_.member(rank);
  return member >= 0 && chunks_out_ < chunks_in_ && !has_come(chunks_out_, member);
}

// ---- steps ----

bool FusedBoard::step() {
  bool any = false;
  while (step_once()) {
    any = true;
    if (one_at_a_time_ || since_due_ > kMostPutOff) ring_if_due();
    if (one_at_a_time_) break;
  }
  ring_if_due();
  return any;
}

bool FusedBoard::step_once() {
  if (failed_) return false;
  return put_in() || take_out() || sum_a_piece();
}

/// Members that sleep are woken once for several small buffers that are over together.
void FusedBoard::ring_if_due() {
  since_due_ = 0;
  if (!std::exchange(ring_due_, false)) return;
  for (const int rank : set_.members()) {
    if (rank != set_.rank_of(set_.me())) ring_(rank);
  }
}

/// A member that sleeps loses nothing as long as the chunk it waits for has others behind it, and slots are free for
/// them.
bool FusedBoard::is_worth_a_ring(const Flight& flight, std::uint64_t chunk) const {
  const auto half = static_cast<std::uint64_t>(std::max(1, shape_.slots / 2));
  return chunk + 1 == flight.first_chunk + flight.chunks || chunk % half == half - 1;
}

bool FusedBoard::put_in() {
  const std::uint64_t chunk = chunks_in_;
  if (chunk == chunks_begun_) return false;
  SlotWords& slot_words = words(chunk);
  const auto members = static_cast<std::uint64_t>(set_.size());
  const std::uint64_t free_at = (use_of(chunk) - 1) * members;
  if (slot_words.taken.value.load(std::memory_order_acquire) < free_at) {
    // Either this look finds the slot free, or the last member to take out finds that it is wanted.
    slot_words.wanted.value.store(1, std::memory_order_seq_cst);
    if (slot_words.taken.value.load(std::memory_order_seq_cst) < free_at) return false;
  }
  Flight& flight = flight_of(chunk);
  if (chunk == flight.first_chunk) {
    Seat& mine = seat(chunk, set_.me());
    mine.hash = flight.round.sequence_hash;
    mine.brings = flight.round.brings ? 1 : 0;
    mine.lends = flight.lends ? 1 + *flight.lends : 0;
    const auto sum = flight.bytes > 0 ? place_in_lent(flight.round.shared_sum, flight.bytes) : std::nullopt;
    mine.sum = sum ? 1 + *sum : 0;
    mine.header_bytes = static_cast<std::uint32_t>(flight.round.header.wire_bytes());
    flight.round.header.write(header_at(chunk, set_.me()));
    const std::string_view made_of = cut_composition(flight.round.composition, kMaxCompositionBytes);
    mine.composition_bytes = static_cast<std::uint32_t>(made_of.size());
    made_of.copy(mine.composition, made_of.size());
  }
  if (flight.round.brings && !flight.lends) gather(flight, input(chunk, set_.me()), bytes_of_chunk(flight, chunk));
  if (++chunks_in_ == flight.first_chunk + flight.chunks) contributed(flight.round.number);
  seat(chunk, set_.me()).uses.store(use_of(chunk), std::memory_order_relaxed);
  const bool last = slot_words.arrived.value.fetch_add(1, std::memory_order_acq_rel) + 1 == free_at + members;
  ring_due_ |= last && know(flight) && flight.bringing.empty() && is_worth_a_ring(flight, chunk);
  return true;
}

/// Reads what all members say of a buffer, once all have come to its first chunk. Returns whether it is known, and the
/// same buffer on all.
bool FusedBoard::know(Flight& flight) {
  const std::uint64_t chunk = flight.first_chunk;
  if (flight.known || failed_) return !failed_;
  if (!all_have_come(chunk)) return false;
  const auto composition = [&](int member) {
    const Seat& at = seat(chunk, member);
    return std::string_view(at.composition, std::min<std::size_t>(at.composition_bytes, kMaxCompositionBytes));
  };
  for (int member = 0; member < set_.size(); ++member) {
    if (seat(chunk, member).hash == seat(chunk, 0).hash) continue;
    failed_ = true;
    fail_({Errc::bad_input,
           text("fused buffers of set ", set_.number(), ": buffer ", flight.round.number,
                " is not the same on every rank: ",
                composition_difference(set_.rank_of(0), composition(0), set_.rank_of(member), composition(member))),
           set_.rank_of(member)});
    return false;
  }
  const auto members = static_cast<std::size_t>(set_.size());
  flight.bringing.reserve(members);
  flight.lent.reserve(members);
  flight.header.times.reserve(std::min<std::size_t>(members, RoundHeader::kMaxNamedRanks));
  const std::uint64_t sum = seat(chunk, 0).sum;
  flight.shared = sum != 0;
  for (int member = 0; member < set_.size(); ++member) {
    const Seat& at = seat(chunk, member);
    flight.shared &= at.sum == sum;
    STRETTO_CHECK(header_.read({header_at(chunk, member), at.header_bytes}, ranks_), "the header of member ", member);
    flight.header.merge(header_);
    if (at.brings != 0) flight.bringing.push_back(member);
    STRETTO_CHECK(at.lends == 0 || at.lends - 1 + flight.bytes <= lent_.size(), "what member ", member, " lends");
    flight.lent.push_back(at.lends == 0 ? nullptr : lent_.data() + at.lends - 1);
  }
  flight.known = true;
  return true;
}

bool FusedBoard::sum_a_piece() {
  for (std::uint64_t chunk = chunks_out_; chunk < chunks_in_; ++chunk) {
    if (!all_have_come(chunk)) return false;  // nor at those behind
    Flight& flight = flight_of(chunk);
    if (!know(flight)) return false;
    if (flight.bringing.empty()) continue;
    const std::uint64_t use = use_of(chunk), pieces = pieces_of_chunk(flight, chunk);
    auto& claimed = words(chunk).claimed.value;
    std::uint64_t word = claimed.load(std::memory_order_relaxed);
    std::uint64_t piece = 0;
    bool mine = false;
    while (!mine && (piece = count_in(word, use)) < pieces) {
      mine = claimed.compare_exchange_weak(word, counted(use, piece + 1), std::memory_order_relaxed);
    }
    if (!mine) continue;
    sum_piece(flight, chunk, piece);
    auto& done = words(chunk).done.value;
    word = done.load(std::memory_order_relaxed);
    // Releases the piece; a member that sees the last one counted acquires them all.
    while (!done.compare_exchange_weak(word, counted(use, count_in(word, use) + 1), std::memory_order_acq_rel)) {
    }
    ring_due_ |= count_in(word, use) + 1 == pieces && is_worth_a_ring(flight, chunk);
    return true;
  }
  return false;
}

bool FusedBoard::take_out() {
  const std::uint64_t chunk = chunks_out_;
  if (chunk == chunks_in_ || !all_have_come(chunk)) return false;
  Flight& flight = flight_of(chunk);
  if (!know(flight) || !complete(flight, chunk)) return false;
  if (!flight.bringing.empty() && !flight.shared) {
    scatter(flight, result(flight, chunk), bytes_of_chunk(flight, chunk));
  }
  ++chunks_out_;
  flight.over = chunks_out_ == flight.first_chunk + flight.chunks;
  SlotWords& slot_words = words(chunk);
  const std::uint64_t taken = slot_words.taken.value.fetch_add(1, std::memory_order_seq_cst) + 1;
  const bool frees = taken == use_of(chunk) * static_cast<std::uint64_t>(set_.size());
  ring_due_ |= frees && slot_words.wanted.value.exchange(0, std::memory_order_seq_cst) != 0;
  return true;
}

// ---- elements ----

void FusedBoard::gather(Flight& flight, std::byte* to, std::uint64_t bytes) {
  count_work(bytes);
  while (bytes > 0) {
    const FusedPart& part = flight.round.parts[flight.in.part];
    const std::uint64_t here = std::min(bytes, part.bytes - flight.in.offset);
    if (part.mine == nullptr) {
      fill_neutral(flight.round.type, flight.round.op, to, here / size_of(flight.round.type));
    } else {
      std::memcpy(to, part.mine + flight.in.offset, here);
    }
    to += here;
    bytes -= here;
    flight.in.offset += here;
    if (flight.in.offset == part.bytes) flight.in = {flight.in.part + 1, 0};
  }
}

void FusedBoard::scatter(Flight& flight, const std::byte* from, std::uint64_t bytes) {
  count_work(bytes);
  if (flight.round.sum != nullptr) {
    std::memcpy(flight.round.sum + flight.out.offset, from, bytes);
    flight.out.offset += bytes;
    return;
  }
  while (bytes > 0) {
    const FusedPart& part = flight.round.parts[flight.out.part];
    const std::uint64_t here = std::min(bytes, part.bytes - flight.out.offset);
    if (here != 0) std::memcpy(part.sum + flight.out.offset, from, here);  // an empty tensor may lie nowhere
    from += here;
    bytes -= here;
    flight.out.offset += here;
    if (flight.out.offset == part.bytes) flight.out = {flight.out.part + 1, 0};
  }
}

const Combination& FusedBoard::tree_of(const std::vector<int>& members) {
  const auto known = trees_.find(members);
  if (known != trees_.end()) return known->second;
  if (trees_.size() == kMaxTrees) trees_.clear();
  return trees_.emplace(members, fixed_tree(set_.size(), members)).first->second;
}

/// A member's part of a chunk: at the board, or where it lies.
const std::byte* FusedBoard::brought(const Flight& flight, std::uint64_t chunk, int member) const {
  const std::byte* const lent = flight.lent[static_cast<std::size_t>(member)];
  return lent == nullptr ? input(chunk, member) : lent + (chunk - flight.first_chunk) * shape_.chunk_bytes;
}

/// Where the sum of a chunk is written.
std::byte* FusedBoard::result(const Flight& flight, std::uint64_t chunk) const {
  if (flight.shared) return flight.round.shared_sum + (chunk - flight.first_chunk) * shape_.chunk_bytes;
  return input(chunk, set_.size());
}

void FusedBoard::sum_piece(const Flight& flight, std::uint64_t chunk, std::uint64_t piece) {
  const std::uint64_t from = piece * shape_.piece_bytes;
  const std::uint64_t bytes = std::min(shape_.piece_bytes, bytes_of_chunk(flight, chunk) - from);
  count_work(bytes);
  sources_.clear();
  for (const int member : flight.bringing) sources_.push_back(brought(flight, chunk, member) + from);
  combine(tree_of(flight.bringing), flight.round.type, flight.round.op, result(flight, chunk) + from, sources_,
          bytes / size_of(flight.round.type));
}

}  // namespace stretto
