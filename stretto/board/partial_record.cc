#include "stretto/board/partial_record.h"

#include <algorithm>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {
namespace {

struct Copy {
  std::vector<std::uint64_t> words;
  std::uint64_t bytes;

  RoundHeader header(Round round, int ranks) const {
    RoundHeader header(ranks);
    const bool whole = header.read(std::as_bytes(std::span(words)).first(bytes), ranks);
    STRETTO_CHECK(whole, "the header of round ", round, " in ", bytes, " bytes");
    return header;
  }
};

Copy copy_of(const PartialMemory& memory, Round round) {
  const auto words = memory.header(round);
  const std::uint64_t bytes =
      std::min(memory.record(round).header_bytes.load(std::memory_order_relaxed), words.size_bytes());
  Copy copy{std::vector<std::uint64_t>((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t)), bytes};
  for (std::size_t i = 0; i < copy.words.size(); ++i) copy.words[i] = words[i].load(std::memory_order_relaxed);
  return copy;
}

}  // namespace

void write_record(const PartialMemory& memory, Round round, const RoundHeader& header,
                  std::span<const std::uint64_t, 2> rule) {
  // Pairs with read_record().
  std::atomic_thread_fence(std::memory_order_release);
  PartialMemory::Record& record = memory.record(round);
  record.last.store(header.drained.all(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < rule.size(); ++i) record.rule[i].store(rule[i], std::memory_order_relaxed);
  std::vector<std::uint64_t> copy((header.wire_bytes() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  header.write(reinterpret_cast<std::byte*>(copy.data()));
  record.header_bytes.store(header.wire_bytes(), std::memory_order_relaxed);
  const auto words = memory.header(round);
  for (std::size_t i = 0; i < copy.size(); ++i) words[i].store(copy[i], std::memory_order_relaxed);
}

std::optional<RoundHeader> read_record(const PartialMemory& memory, Round round) {
  const Copy copy = copy_of(memory, round);
  // Pairs with write_record(): a reader that has read words of the later round sees here that that round is being
  // summed.
  std::atomic_thread_fence(std::memory_order_acquire);
  const Round overwritten_by = round + static_cast<Round>(memory.shape().max_lag) + 1;
  const std::uint64_t stage = memory.words().stage.load(std::memory_order_acquire);
  if (stage >= (overwritten_by << 2 | PartialMemory::kSumming)) return std::nullopt;
  return copy.header(round, memory.job_ranks());
}

RoundHeader read_own_record(const PartialMemory& memory, Round round) {
  return copy_of(memory, round).header(round, memory.job_ranks());
}

}  // namespace stretto
