#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "stretto/base/doorbell.h"
#include "stretto/base/error.h"
#include "stretto/transport/ring.h"

namespace stretto {

/// The state of a rank: running, left, or lost.
struct RankFate {
  enum class Kind : std::uint8_t {
    running,
    left,  ///< has said goodbye: nothing more comes from it, and that is no failure
    lost,  ///< has ended without a goodbye
  };
  Kind kind = Kind::running;
  int wait_status = 0;      ///< lost: as waitpid() reports it
  std::uint32_t order = 0;  ///< lost: how many were lost before it

  /// "killed by SIGKILL", "ended with exit status 1".
  std::string to_string() const;
};

/// The memory that all ranks of a job on one host share: doorbells, fates, counters, message rings, extra bytes.
///
/// A memfd: it has no name, is inherited through fork or handed on as a descriptor, and is gone with the last process
/// that maps it. Its pages are taken when first touched. Threads that act as ranks may share one object. Thread-safe,
/// except the rings: see RingWriter and RingReader.
class JobMemory {
 public:
  static constexpr int kMaxRanks = 1024;
  static constexpr int kNumCounters = 17;

  /// All of it but the arena, were every page touched. Throws UsageError for a number of ranks outside 1 … kMaxRanks.
  static std::uint64_t bytes_needed(int ranks, std::uint64_t extra_bytes);

  /// A fresh one. Throws UsageError as bytes_needed(). Errc::unavailable names the bytes needed and those there are
  /// (base/machine/process_limits.h) when these are fewer.
  static Result<JobMemory> create(int ranks, std::uint64_t extra_bytes = 0);

  /// Maps the memory that another process has created; `fd` stays the caller's. Errc::bad_input if it is something
  /// else.
  static Result<JobMemory> attach(int fd);

  JobMemory(JobMemory&& other) noexcept;
  JobMemory& operator=(JobMemory&&) = delete;
  ~JobMemory();

  /// Valid as long as this object; closed on exec unless the caller changes that. Not there after attach().
  int fd() const { return fd_; }
  int ranks() const { return ranks_; }
  std::uint64_t bytes() const { return bytes_; }

  DoorbellWords& doorbell(int rank);
  std::atomic<std::uint64_t>& counter(int index);
  std::span<std::byte> extra();
  /// The rest of the memory that the job may use (base/machine/process_limits.h), for a SharedArena; 0 bytes where it
  /// cannot be mapped.
  std::span<std::byte> arena();
  /// All that this object has mapped.
  std::span<std::byte> mapped() { return {base_, bytes_ + arena_bytes_}; }

  /// The process of a rank, 0 before it has entered.
  pid_t process(int rank) const;
  void enter(int rank, pid_t process);

  RankFate fate(int rank) const;
  /// Marks a rank as left, unless it is lost, and rings all doorbells.
  void leave(int rank);
  /// Marks a rank as lost, unless it has left, and rings all doorbells. One caller at a time.
  void mark_lost(int rank, int wait_status);
  static constexpr std::size_t kLastWords = 500;  ///< bytes; what is longer is cut
  /// Says why a rank is about to be lost. Once, by the rank itself, before mark_lost(), which publishes it.
  void say_why(int rank, const std::string& why);
  /// The reason that say_why() was told; empty: nothing. Requires: fate() of the rank is lost.
  std::string why(int rank) const;
  /// Changes whenever a fate has. Pairs: a fate is stored before it grows.
  std::uint32_t changes_of_fate() const;

  /// A launcher calls mark_lost(), so the ranks need not watch each other. Call before they start.
  void set_watched();
  bool watched() const;
  /// The job is being stopped by a signal.
  void set_interrupted();
  bool interrupted() const;

  // For the transport over this memory.

  std::uint64_t ring_bytes() const { return ring_bytes_; }
  RingWords& ring_words(int from, int to);
  std::byte* ring_data(int from, int to);
  /// Sets of ranks, as words of 64 bits: those that have published something for `rank`, and those that have made
  /// room for it. Set (release) by the peer after its store to the ring, taken (acquire) by `rank` before it looks
  /// there.
  std::span<std::atomic<std::uint64_t>> peers_with_data(int rank);
  std::span<std::atomic<std::uint64_t>> peers_with_room(int rank);

 private:
  struct Header;
  struct RankWords;
  struct Layout;

  JobMemory(int fd, std::byte* base, const Layout& layout);
  static Result<JobMemory> map(int fd, bool own_fd, const Layout& layout);
  Header& header() const;
  RankWords& words_of(int rank) const;
  std::size_t ring_index(int from, int to) const;
  void publish_fate(int rank, const RankFate& fate);

  int fd_;
  std::byte* base_;
  int ranks_;
  std::uint64_t bytes_, arena_bytes_, ring_bytes_;
  std::uint64_t words_at_, sets_at_, rings_at_, data_at_, extra_at_, arena_at_;  // where the parts begin
};

}  // namespace stretto
