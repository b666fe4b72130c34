#include "stretto/board/partial_memory.h"

#include <algorithm>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/pages.h"

namespace stretto {

namespace {

std::uint64_t largest_header(int ranks) {
  return RoundHeader::max_wire_bytes(ranks, RoundHeader::Names::times);
}

}  // namespace

/// Offsets into the memory.
struct PartialMemory::Layout {
  Layout(const PartialShape& shape, int ranks_) {
    const auto ranks = static_cast<std::uint64_t>(ranks_);
    const auto slots = static_cast<std::uint64_t>(shape.results_kept());
    const auto sets = static_cast<std::uint64_t>(kSets);
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
    header_room = round_up(largest_header(shape.job_ranks != 0 ? shape.job_ranks : ranks_), sizeof(std::uint64_t));
    record_stride = round_up(sizeof(Record) + header_room + ranks * sizeof(std::int64_t), kCacheLine);
    const auto part = [this](std::uint64_t bytes) {
      const std::uint64_t at = end;
      end += round_up(bytes, kCacheLine);
      return at;
    };
    part(sizeof(Words));
    seats_at = part(ranks * sizeof(std::uint64_t));
    handed_at = part(ranks * sizeof(std::uint64_t));
    arrived_at_at = part(ranks * sizeof(std::int64_t));
    sealed_at = part(slots * ranks * sizeof(std::uint64_t));
    sources_at = part(2 * ranks * sizeof(std::uint32_t));
    pieces_at = part(pieces * sizeof(std::uint64_t));
    bucket_done_at = part(shape.buckets.size() * sizeof(std::uint64_t));
    sets_at = part(ranks * sets * sizeof(Set));
    records_at = part((slots + 1) * record_stride);
    end = round_up(end, kPage);
    results_at = part(slots * set_stride);
    sums_at = shape.job_ranks != 0 ? part(kSums * set_stride) : results_at;
    data_at = part(ranks * sets * set_stride);
  }

  std::vector<std::uint64_t> bucket_at, first_piece;
  std::uint64_t set_bytes = 0, set_stride = 0, header_room = 0, record_stride = 0;
  std::uint64_t seats_at = 0, handed_at = 0, arrived_at_at = 0, sealed_at = 0, sources_at = 0, pieces_at = 0;
  std::uint64_t bucket_done_at = 0;
  std::uint64_t sets_at = 0, records_at = 0, results_at = 0, sums_at = 0, data_at = 0, end = 0;
};

std::uint64_t PartialMemory::bytes_needed(const PartialShape& shape, int ranks) {
  return Layout(shape, ranks).end;
}

PartialMemory::PartialMemory(std::span<std::byte> memory, const PartialShape& shape, int ranks)
    : shape_(shape), ranks_(ranks), slots_(static_cast<std::uint64_t>(shape.results_kept())) {
  const Layout layout(shape, ranks);
  STRETTO_CHECK(memory.size() >= layout.end, "a board in ", memory.size(), " bytes, of ", layout.end);
  STRETTO_CHECK(shape.results_kept() >= shape.max_lag, shape.results, " results kept, max_lag ", shape.max_lag);
  STRETTO_CHECK(shape.piece_bytes % kCacheLine == 0 && shape.piece_bytes > 0, "pieces of ", shape.piece_bytes,
                " bytes");
  bucket_at_ = layout.bucket_at;
  first_piece_ = layout.first_piece;
  num_pieces_ = layout.first_piece.back();
  set_bytes_ = layout.set_bytes;
  set_stride_ = layout.set_stride;
  header_room_ = layout.header_room;
  record_stride_ = layout.record_stride;
  std::byte* base = memory.data();
  words_ = reinterpret_cast<Words*>(base);
  const auto words_at = [base](std::uint64_t at) { return reinterpret_cast<std::atomic<std::uint64_t>*>(base + at); };
  seats_ = words_at(layout.seats_at);
  handed_ = words_at(layout.handed_at);
  sealed_ = words_at(layout.sealed_at);
  pieces_ = words_at(layout.pieces_at);
  bucket_done_ = words_at(layout.bucket_done_at);
  arrived_at_ = reinterpret_cast<std::atomic<std::int64_t>*>(base + layout.arrived_at_at);
  sources_ = reinterpret_cast<std::atomic<std::uint32_t>*>(base + layout.sources_at);
  sets_ = reinterpret_cast<Set*>(base + layout.sets_at);
  records_ = base + layout.records_at;
  results_ = base + layout.results_at;
  sums_ = base + layout.sums_at;
  data_ = base + layout.data_at;
  buffers_end_ = base + layout.end;
}

std::span<std::byte> PartialMemory::data(int rank, int set, std::size_t bucket) const {
  const BucketSpec& spec = shape_.buckets[bucket];
  const auto index = static_cast<std::uint64_t>(rank) * kSets + static_cast<std::uint64_t>(set);
  return {data_ + index * set_stride_ + bucket_at_[bucket], spec.count * size_of(spec.type)};
}

void PartialMemory::touch_set(int seat, int set) const {
  use_huge_pages({data(seat, set, 0).data(), set_bytes_}, {results_, buffers_end_});
}

void PartialMemory::touch_sums(Round round) const {
  if (round < slots_) use_huge_pages({result(round, 0).data(), set_bytes_}, {results_, buffers_end_});
  if (several_boards() && round < kSums) use_huge_pages({sum(round, 0).data(), set_bytes_}, {results_, buffers_end_});
}

std::span<std::byte> PartialMemory::result(Round round, std::size_t bucket) const {
  const BucketSpec& spec = shape_.buckets[bucket];
  return {results_ + (round % slots_) * set_stride_ + bucket_at_[bucket], spec.count * size_of(spec.type)};
}

std::span<std::byte> PartialMemory::sum(Round round, std::size_t bucket) const {
  if (!several_boards()) return result(round, bucket);
  const BucketSpec& spec = shape_.buckets[bucket];
  const std::uint64_t index = defect(Defect::one_sum_for_all_rounds) ? 0 : round % kSums;
  return {sums_ + index * set_stride_ + bucket_at_[bucket], spec.count * size_of(spec.type)};
}

std::span<std::atomic<std::uint64_t>> PartialMemory::header(Round round) const {
  std::byte* at = record_at(round) + sizeof(Record) + static_cast<std::uint64_t>(ranks_) * sizeof(std::int64_t);
  return {reinterpret_cast<std::atomic<std::uint64_t>*>(at), header_room_ / sizeof(std::uint64_t)};
}

std::span<std::atomic<std::int64_t>> PartialMemory::arrivals(Round round) const {
  auto* at = reinterpret_cast<std::atomic<std::int64_t>*>(record_at(round) + sizeof(Record));
  return {at, static_cast<std::size_t>(ranks_)};
}

PartialMemory::Piece PartialMemory::piece_at(std::uint64_t index) const {
  const auto after = std::upper_bound(first_piece_.begin(), first_piece_.end(), index);
  const auto bucket = static_cast<std::size_t>(after - first_piece_.begin()) - 1;
  const BucketSpec& spec = shape_.buckets[bucket];
  const std::uint64_t offset = (index - first_piece_[bucket]) * shape_.piece_bytes;
  return {bucket, offset, std::min(shape_.piece_bytes, spec.count * size_of(spec.type) - offset)};
}

namespace {

/// Words of a header in memory of this thread, which is kept: a step allocates nothing.
std::span<std::uint64_t> words_for(std::size_t bytes) {
  thread_local std::vector<std::uint64_t> words;
  const std::size_t count = (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  if (words.size() < count) words.resize(count);
  return std::span(words).first(count);
}

/// The header of a round as it lies in the record, until words_for() is called again.
std::span<const std::byte> copy_of(const PartialMemory& memory, Round round) {
  const auto words = memory.header(round);
  const std::uint64_t bytes =
      std::min(memory.record(round).header_bytes.load(std::memory_order_relaxed), words.size_bytes());
  const std::span<std::uint64_t> copy = words_for(bytes);
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = words[i].load(std::memory_order_relaxed);
  return std::as_bytes(copy).first(bytes);
}

void parse(std::span<const std::byte> copy, Round round, int ranks, RoundHeader& header) {
  const bool whole = header.read(copy, ranks);
  STRETTO_CHECK(whole, "the header of round ", round, " in ", copy.size(), " bytes");
}

}  // namespace

void write_record(const PartialMemory& memory, Round round, const RoundHeader& header,
                  std::span<const std::uint64_t, 2> rule) {
  // Pairs with read_record().
  std::atomic_thread_fence(std::memory_order_release);
  PartialMemory::Record& record = memory.record(round);
  record.last.store(header.drained.all(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < rule.size(); ++i) record.rule[i].store(rule[i], std::memory_order_relaxed);
  const std::span<std::uint64_t> copy = words_for(header.wire_bytes());
  header.write(reinterpret_cast<std::byte*>(copy.data()));
  record.header_bytes.store(header.wire_bytes(), std::memory_order_relaxed);
  const auto words = memory.header(round);
  for (std::size_t i = 0; i < copy.size(); ++i) words[i].store(copy[i], std::memory_order_relaxed);
}

bool read_record(const PartialMemory& memory, Round round, RoundHeader& header) {
  const auto copy = copy_of(memory, round);
  // Pairs with write_record(): a reader that has read words of the later round sees here that that round is being
  // summed.
  std::atomic_thread_fence(std::memory_order_acquire);
  const Round overwritten_by = round + static_cast<Round>(memory.shape().results_kept()) + 1;
  const std::uint64_t stage = memory.words().stage.load(std::memory_order_acquire);
  if (stage >= (overwritten_by << 2 | PartialMemory::kSumming)) return false;
  parse(copy, round, memory.job_ranks(), header);
  return true;
}

RoundHeader read_own_record(const PartialMemory& memory, Round round) {
  RoundHeader header;
  parse(copy_of(memory, round), round, memory.job_ranks(), header);
  return header;
}

}  // namespace stretto
