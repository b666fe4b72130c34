#include "stretto/transport/shared_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "stretto/base/align.h"
#include "stretto/transport/memory_budget.h"

namespace stretto {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);  // with a rank that describes a region

/// A text that is written once, by one rank, and read by the others.
template <std::size_t N>
struct Words {
  std::array<char, N> text{};

  void set(const std::string& words) {
    const std::size_t length = std::min(words.size(), N - 1);
    std::memcpy(text.data(), words.data(), length);
  }
  std::string get() const { return text.data(); }
};

enum State : std::uint32_t { nobody, being_written, written };

}  // namespace

struct SharedArena::Region {
  std::atomic<std::uint32_t> state{nobody};  // everything else is stored before `written` (release)
  std::int32_t rank = 0;                     // who was first
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;
  Words<168> shape;
};

struct SharedArena::Table {
  std::atomic<std::uint32_t> disagreement{nobody};
  std::int32_t rank = -1;  // who has seen it
  std::int32_t region = 0;
  Words<440> message;
  Region regions[kMaxRegions];
};

std::uint64_t SharedArena::overhead() {
  return round_up(sizeof(Table), kPage);
}

SharedArena::SharedArena(std::span<std::byte> memory, int rank, int ranks, std::function<void(int)> ring,
                         bool interleaved)
    : table_(*reinterpret_cast<Table*>(memory.data())),
      memory_(memory),
      rank_(rank),
      ranks_(ranks),
      ring_(std::move(ring)),
      interleaved_(interleaved),
      used_(overhead()) {
  STRETTO_CHECK(memory.size() >= overhead(), memory.size(), " bytes for the list of regions");
}

bool SharedArena::wait_until_described(const Region& region) const {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (region.state.load(std::memory_order_acquire) != written) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

Result<std::span<std::byte>> SharedArena::take(std::uint64_t bytes, const std::string& shape) {
  if (failed_) return *failed_;
  const auto fail = [this](Error error) { return *(failed_ = std::move(error)); };
  if (next_ == kMaxRegions) {
    return fail({Errc::unavailable, text("more than ", kMaxRegions, " collectives that share memory")});
  }
  Region& region = table_.regions[next_++];
  const std::uint64_t whole = round_up(bytes, bytes >= kHugePage ? kHugePage : kPage);
  std::uint32_t expected = nobody;
  if (region.state.compare_exchange_strong(expected, being_written, std::memory_order_acquire)) {
    region.rank = rank_;
    region.bytes = bytes;
    region.at = round_up(used_, bytes >= kHugePage ? kHugePage : kPage);
    region.shape.set(shape);
    region.state.store(written, std::memory_order_release);
  } else if (!wait_until_described(region)) {
    return fail({Errc::timeout, text("a rank began to describe \"", shape, "\" and did not finish")});
  }
  Words<168> mine;
  mine.set(shape);
  if (region.bytes != bytes || region.shape.text != mine.text) {
    const std::string message =
        text("rank ", rank_, " runs \"", mine.get(), "\" where rank ", region.rank, " runs \"", region.shape.get(),
             "\"; every rank must make the same collectives in the same order");
    disagree(message);
    return fail({Errc::bad_input, message, rank_});
  }
  if (region.at + whole > memory_.size()) {
    const std::uint64_t left = memory_.size() > region.at ? memory_.size() - region.at : 0;
    return fail({Errc::unavailable, text("too little shared memory: \"", shape, "\" of ", ranks_, " ranks needs ",
                                         format_bytes(bytes), ", there are ", format_bytes(left),
                                         "; take fewer ranks or smaller buffers, or raise the limit")});
  }
  used_ = region.at + whole;
  const auto memory = memory_.subspan(region.at, bytes);
  // Advice only: on a machine that keeps no huge pages for shared memory nothing changes.
  if (bytes >= kHugePage) ::madvise(memory.data(), whole, MADV_HUGEPAGE);
  return memory;
}

void SharedArena::disagree(const std::string& message) {
  std::uint32_t expected = nobody;
  if (table_.disagreement.compare_exchange_strong(expected, being_written, std::memory_order_acquire)) {
    table_.message.set(message);
    table_.rank = rank_;
    table_.region = next_ - 1;
    table_.disagreement.store(written, std::memory_order_release);
  }
  ring_others();
}

std::optional<Error> SharedArena::disagreement(int regions) const {
  if (table_.disagreement.load(std::memory_order_acquire) != written || table_.region >= regions) return std::nullopt;
  return Error{Errc::bad_input, table_.message.get(), table_.rank};
}

void SharedArena::ring_others() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_) ring_(rank);
  }
}

}  // namespace stretto
