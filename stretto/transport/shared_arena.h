#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

class SharedArena;

/// A region of a SharedArena that this rank has taken. Gives it back at its end, on any thread: this rank touches the
/// bytes no more. Must not outlive the arena. Without an arena it has no bytes.
class SharedRegion {
 public:
  SharedRegion() = default;
  SharedRegion(SharedRegion&& other) noexcept
      : arena_(std::exchange(other.arena_, nullptr)), entry_(other.entry_), bytes_(std::exchange(other.bytes_, {})) {}
  SharedRegion& operator=(SharedRegion&& other) noexcept {
    SharedRegion old(std::move(*this));
    arena_ = std::exchange(other.arena_, nullptr);
    entry_ = other.entry_;
    bytes_ = std::exchange(other.bytes_, {});
    return *this;
  }
  ~SharedRegion();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  friend class SharedArena;
  SharedRegion(SharedArena& arena, std::uint32_t entry) : arena_(&arena), entry_(entry) {}

  SharedArena* arena_ = nullptr;
  std::uint32_t entry_ = 0;  // in the list of regions
  std::span<std::byte> bytes_;
};

/// Memory that all ranks of a host map, handed out region by region: each rank takes the same regions in the same
/// order, and gets the same bytes. Over memory handed in, which is zero at the start: a job's (ShmTransport) or, in a
/// simulation, the cluster's. One object a rank; one thread at a time, but for ring(), disagreement() and the ends of
/// regions.
///
/// Ranks give regions back in any order and at different times. The bytes of a region are used for another one when all
/// ranks have given it back, those too that had not taken it yet. Its pages go back to the system then, where the
/// memory is a file's. The rank that is first to take a region decides where it lies and publishes that in the list of
/// regions, where each entry names the next one; the other ranks follow the list.
class SharedArena {
 public:
  /// Regions that exist at a time: a region exists until all ranks have given it back and have taken the one after it.
  static constexpr std::uint32_t kMaxRegions = 4096;
  /// Bytes of the memory handed in that the list of regions takes.
  static std::uint64_t overhead();

  /// `ring` wakes a rank; any thread. `interleaved`: boards in it take one step at a time, so that a search can
  /// interleave them, and take() does not wait for other ranks, which run on the same thread.
  SharedArena(std::span<std::byte> memory, int rank, int ranks, std::function<void(int rank)> ring,
              bool interleaved = false);

  /// The next region: `bytes` zeros, aligned to pages. `description` (base/description.h) says what uses it. Where
  /// another rank has asked for something else, Errc::bad_input names both, here and through disagreement() on every
  /// rank; that is final. Errc::unavailable, on every rank, names the bytes needed where there are fewer; a smaller
  /// region may be taken next. Waits up to half a minute where there would be room had the other ranks, too, given back
  /// what a rank has given back.
  Result<SharedRegion> take(std::uint64_t bytes, const std::string& description);

  /// The error that names both sides, if the ranks disagree about one of the first `regions` regions.
  std::optional<Error> disagreement(std::uint64_t regions) const;
  /// Regions taken by this rank so far.
  std::uint64_t taken() const { return taken_; }

  bool interleaved() const { return interleaved_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  void ring(int rank) const {
    STRETTO_CHECK(rank >= 0 && rank < ranks_, "rings ", rank, " of ", ranks_, " ranks that share a memory");
    ring_(rank);
  }
  void ring_others() const;

  struct Table;  // the list of regions, at the beginning of the memory

 private:
  friend class SharedRegion;
  struct Region;
  struct Room;

  std::uint32_t find_next(std::uint64_t bytes, const std::string& description);
  std::uint32_t describe(std::uint64_t bytes, const std::string& description);
  std::uint32_t free_entry() const;
  bool entries_will_be_free() const;
  Room find_room(std::uint64_t bytes, std::uint32_t at_most_holders) const;
  Result<std::span<std::byte>> look_at(const Region& region, std::uint64_t bytes, const std::string& description);
  void go_on_to(std::uint32_t entry);
  void give_back(std::uint32_t entry);
  void tell_of_space();
  Error disagree(const Region& region, const std::string& description);

  Table& table_;
  const std::span<std::byte> memory_;
  const int rank_;
  const int ranks_;
  const std::function<void(int)> ring_;
  const bool interleaved_;
  Region* stands_on_ = nullptr;  // the entry that this rank took last
  std::uint64_t taken_ = 0;
  std::optional<Error> failed_;
};

}  // namespace stretto
