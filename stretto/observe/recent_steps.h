#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stretto {

/// How many seconds each rank computed in its latest steps, for a process that watches them, in memory that this
/// process shares with those it forks from now on. Adding a step costs its rank two stores and no wait, whether it is
/// read or not.
class RecentSteps {
 public:
  static constexpr std::size_t kKept = 4096;  ///< steps of a rank; older ones are overwritten

  /// Throws Failure (Errc::unavailable) when there is no memory. Pages are taken when a step is written to them.
  explicit RecentSteps(int ranks);
  ~RecentSteps();
  RecentSteps(const RecentSteps&) = delete;
  RecentSteps& operator=(const RecentSteps&) = delete;

  int ranks() const { return ranks_; }
  /// The rank's next step. One thread for each rank.
  void add(int rank, double seconds);
  /// Appends to `steps` those of the rank from its step `from` on that are still kept, and returns the step to read
  /// from next. Thread-safe beside add().
  std::uint64_t read(int rank, std::uint64_t from, std::vector<float>& steps) const;

 private:
  struct alignas(64) Lane {
    std::atomic<std::uint64_t> count{0};  // steps added; its store in add() pairs with the loads in read()
    std::atomic<float> steps[kKept];
  };

  const int ranks_;
  Lane* lanes_;
};

}  // namespace stretto
