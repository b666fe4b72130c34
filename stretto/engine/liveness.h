#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace stretto {

/// Which ranks of a world are still there, as its transport has told. Any thread reads it; the thread that drives the
/// engine writes it.
class Liveness {
 public:
  enum class Fate : std::uint8_t {
    here,
    left,  ///< in order: nothing comes from it any more
    lost,
  };
  explicit Liveness(int ranks) : fates_(static_cast<std::size_t>(ranks)) {}

  bool all_here() const { return gone_.load(std::memory_order_acquire) == 0; }
  Fate of(int rank) const { return fates_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }
  bool has_left(int rank) const { return of(rank) == Fate::left; }

  void set(int rank, Fate fate) {
    fates_[static_cast<std::size_t>(rank)].store(fate, std::memory_order_release);
    gone_.fetch_add(1, std::memory_order_release);
  }

 private:
  std::vector<std::atomic<Fate>> fates_;
  std::atomic<int> gone_{0};
};

}  // namespace stretto
