#include "stretto/board/partial_record.h"

#include <algorithm>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {
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
  const Round overwritten_by = round + static_cast<Round>(memory.shape().max_lag) + 1;
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
