#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace stretto {

/// Which ranks of a world are still there, as its transport has told. Any thread reads it; the thread that drives the
/// engine writes it.
class Liveness {
 public:
  /// The state of one rank.
  enum class Fate : std::uint8_t {
    here,  ///< as far as this rank has heard
    left,  ///< in order: nothing comes from it any more
    lost,  ///< without a word, or by its failure
  };
  /// All of them are here.
  explicit Liveness(int ranks) : fates_(static_cast<std::size_t>(ranks)) {}

  bool all_here() const { return gone_.load(std::memory_order_acquire) == 0; }  ///< whether none has left or is lost
  /// Of one rank.
  Fate of(int rank) const { return fates_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }
  bool has_left(int rank) const { return of(rank) == Fate::left; }  ///< whether it has left in order

  /// A rank has left, or is lost: once a rank.
  void set(int rank, Fate fate) {
    fates_[static_cast<std::size_t>(rank)].store(fate, std::memory_order_release);
    gone_.fetch_add(1, std::memory_order_release);
  }

 private:
  std::vector<std::atomic<Fate>> fates_;
  std::atomic<int> gone_{0};
};

}  // namespace stretto
