#include "stretto/board/groups/group_memory.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/pages.h"

namespace stretto {

/// Offsets into the memory.
struct GroupMemory::Layout {
  Layout(const GroupShape& shape, int ranks_) {
    const auto ranks = static_cast<std::uint64_t>(ranks_);
    const std::uint64_t sets = ranks * static_cast<std::uint64_t>(num_sets(shape));
    const std::uint64_t results = ranks * results_per_rank(shape);
    std::uint64_t pieces = 0;
    for (const BucketSpec& bucket : shape.buckets) {
      const std::uint64_t bytes = bucket.count * size_of(bucket.type);
      bucket_at.push_back(set_bytes);
      first_piece.push_back(pieces);
      set_bytes += round_up(bytes, kCacheLine);
      pieces += (bytes + shape.piece_bytes - 1) / shape.piece_bytes;
    }
    first_piece.push_back(pieces);
    set_stride = staggered(set_bytes);
    header_room = round_up(
        RoundHeader::max_wire_bytes(shape.job_ranks != 0 ? shape.job_ranks : ranks_, RoundHeader::Names::times),
        kCacheLine);
    const auto part = [this](std::uint64_t bytes) {
      const std::uint64_t at = end;
      end += round_up(bytes, kCacheLine);
      return at;
    };
    part(sizeof(Words));
    seats_at = part(ranks * sizeof(Seat));
    desks_at = part(ranks * sizeof(Desk));
    summers_at = part(shape.full_every * static_cast<std::uint64_t>(shape.groups) * sizeof(std::uint64_t));
    sets_at = part(sets * sizeof(Set));
    results_at = part(results * sizeof(Result));
    owns_at = part(results * ranks * sizeof(Own));
    headers_at = part(results * header_room);
    end = round_up(end, kPage);
    models_at = part(sets * set_stride);
    sums_at = part(results * set_stride);
  }

  std::vector<std::uint64_t> bucket_at, first_piece;
  std::uint64_t set_bytes = 0, set_stride = 0, header_room = 0;
  std::uint64_t seats_at = 0, desks_at = 0, summers_at = 0, sets_at = 0, results_at = 0, owns_at = 0, headers_at = 0;
  std::uint64_t models_at = 0, sums_at = 0, end = 0;
};

std::uint64_t GroupMemory::bytes_needed(const GroupShape& shape, int ranks) {
  return Layout(shape, ranks).end;
}

GroupMemory::GroupMemory(std::span<std::byte> memory, const GroupShape& shape, int ranks)
    : shape_(shape), ranks_(ranks) {
  const Layout layout(shape, ranks);
  STRETTO_CHECK(memory.size() >= layout.end, "a board in ", memory.size(), " bytes, of ", layout.end);
  STRETTO_CHECK(shape.piece_bytes % kCacheLine == 0 && shape.piece_bytes > 0, "pieces of ", shape.piece_bytes,
                " bytes");
  bucket_at_ = layout.bucket_at;
  first_piece_ = layout.first_piece;
  num_pieces_ = layout.first_piece.back();
  STRETTO_CHECK(num_pieces_ < NumberedWord::kMaxIndex, num_pieces_, " pieces");
  set_bytes_ = layout.set_bytes;
  set_stride_ = layout.set_stride;
  header_room_ = layout.header_room;
  std::byte* base = memory.data();
  words_ = reinterpret_cast<Words*>(base);
  seats_ = reinterpret_cast<Seat*>(base + layout.seats_at);
  desks_ = reinterpret_cast<Desk*>(base + layout.desks_at);
  summers_ = reinterpret_cast<std::atomic<std::uint64_t>*>(base + layout.summers_at);
  sets_ = reinterpret_cast<Set*>(base + layout.sets_at);
  results_ = reinterpret_cast<Result*>(base + layout.results_at);
  owns_ = reinterpret_cast<Own*>(base + layout.owns_at);
  headers_ = base + layout.headers_at;
  models_ = base + layout.models_at;
  sums_ = base + layout.sums_at;
  end_ = base + layout.end;
}

std::span<std::byte> GroupMemory::bucket_in(std::byte* sets, std::uint64_t index, std::size_t bucket) const {
  const BucketSpec& spec = shape_.buckets[bucket];
  return {sets + index * set_stride_ + bucket_at_[bucket], spec.count * size_of(spec.type)};
}

std::span<std::byte> GroupMemory::model(int rank, int set, std::size_t bucket) const {
  const auto index = static_cast<std::uint64_t>(rank) * static_cast<std::uint64_t>(sets());
  return bucket_in(models_, index + static_cast<std::uint64_t>(set), bucket);
}

std::span<std::byte> GroupMemory::sum(std::uint64_t result, std::size_t bucket) const {
  return bucket_in(sums_, result, bucket);
}

void GroupMemory::touch_model(int rank, int set) const {
  use_huge_pages({model(rank, set, 0).data(), set_bytes_}, {models_, end_});
}

void GroupMemory::touch_sum(std::uint64_t result) const {
  use_huge_pages({sum(result, 0).data(), set_bytes_}, {models_, end_});
}

void GroupMemory::enter_model(RoundHeader& header, Round round, int rank, int set) const {
  Seat& its = seat(rank);
  const bool moves = shape_.moves != nullptr;
  const Round ticket = moves ? its.ticket : this->set(rank, set).ticket;
  const int named = rank_at(rank);
  if (its.waits_at.load(std::memory_order_seq_cst) == round + 1) header.arrived.insert(named);
  if (its.drained.load(std::memory_order_seq_cst)) header.drained.insert(named);
  ContributionFacts facts = moves ? its.facts : this->set(rank, set).facts;
  if (!full(round)) {
    const Round age = moves && facts.batches == 0 ? 0 : round - std::min(round, ticket);
    its.ages.fetch_add(age, std::memory_order_relaxed);
    std::uint64_t oldest = its.oldest_age.load(std::memory_order_relaxed);
    while (oldest < age && !its.oldest_age.compare_exchange_weak(oldest, age, std::memory_order_relaxed)) {
    }
    enter(header, round, named, facts, false);
    return;
  }
  const std::uint64_t ages = its.ages.exchange(0, std::memory_order_relaxed);
  const std::uint64_t oldest = its.oldest_age.exchange(0, std::memory_order_relaxed);
  facts.oldest_base = round;
  facts.sum_of_bases = round * facts.batches;
  enter(header, round, named, facts, true);
  header.sum_of_bases -= std::min(header.sum_of_bases, ages);
  if (facts.batches > 0) header.oldest_base = std::min(header.oldest_base, round - oldest);
}

std::uint64_t GroupMemory::stand(int rank, std::uint64_t result) const {
  auto& word = seat(rank).model;
  const NumberedWord older(word.load(std::memory_order_seq_cst));
  const std::uint64_t place = place_of_result(result);
  if (defect(Defect::group_old_stands)) return place;
  word.store(NumberedWord(older.number() + 1, place).bits(), std::memory_order_seq_cst);
  return older.index();
}

void GroupMemory::enter_result(std::uint64_t result, Round round, int members, const RoundHeader& header) const {
  Result& record = this->result(result);
  record.round = round;
  record.members = members;
  record.header_bytes = header.wire_bytes();
  header.write(this->header(result).data());
}

GroupMemory::Piece GroupMemory::piece_at(std::uint64_t index) const {
  const auto after = std::upper_bound(first_piece_.begin(), first_piece_.end(), index);
  const auto bucket = static_cast<std::size_t>(after - first_piece_.begin()) - 1;
  const BucketSpec& spec = shape_.buckets[bucket];
  const std::uint64_t offset = (index - first_piece_[bucket]) * shape_.piece_bytes;
  return {bucket, offset, std::min(shape_.piece_bytes, spec.count * size_of(spec.type) - offset)};
}

}  // namespace stretto
