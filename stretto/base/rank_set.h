#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

/// A set of ranks 0 … size−1, one bit each. The first 64 live inside the object; the others take memory only once one
/// of them has been in the set. Not thread-safe. Requires of every rank passed in: 0 ≤ rank < size().
class RankSet {
 public:
  RankSet() = default;  ///< of no ranks
  /// The empty set of a job of `size` ranks.
  explicit RankSet(int size) : size_(size) {}

  int size() const { return size_; }  ///< the ranks there are, in the set or not
  /// Whether `rank` is in it.
  bool contains(int rank) const { return (word(rank / 64) >> (rank % 64)) & 1u; }
  /// Puts `rank` in.
  void insert(int rank) { word(rank / 64) |= std::uint64_t{1} << (rank % 64); }
  /// Takes `rank` out.
  void erase(int rank) {
    if (contains(rank)) word(rank / 64) &= ~(std::uint64_t{1} << (rank % 64));
  }
  /// Takes all ranks out.
  void clear() {
    first_ = 0;
    for (auto& w : more_) w = 0;
  }
  /// How many ranks are in it.
  int count() const {
    int n = std::popcount(first_);
    for (auto w : more_) n += std::popcount(w);
    return n;
  }
  bool empty() const { return count() == 0; }  ///< whether no rank is in it
  /// Whether every rank is in it.
  bool all() const { return count() == size_; }

  /// Puts in what is in `other`. Requires: the same size.
  RankSet& operator|=(const RankSet& other) {
    first_ |= other.first_;
    if (more_.size() < other.more_.size()) more_.resize(other.more_.size());
    for (std::size_t i = 0; i < other.more_.size(); ++i) more_[i] |= other.more_[i];
    return *this;
  }
  /// The union. Requires: the same size.
  friend RankSet operator|(RankSet a, const RankSet& b) { return a |= b; }
  /// Whether both have the same size and the same members.
  friend bool operator==(const RankSet& a, const RankSet& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.num_words(); ++i) {
      if (a.word(i) != b.word(i)) return false;
    }
    return true;
  }

  /// The k-th member in ascending order, or −1. Requires: k ≥ 0.
  int nth(int k) const {
    for (int rank = 0; rank < size_; ++rank) {
      if (contains(rank) && k-- == 0) return rank;
    }
    return -1;
  }

  /// The members in ascending order.
  std::vector<int> members() const {
    std::vector<int> out;
    for (int rank = 0; rank < size_; ++rank) {
      if (contains(rank)) out.push_back(rank);
    }
    return out;
  }

  /// Words of 64 ranks that the set has, at least one.
  int num_words() const { return size_ <= 64 ? 1 : (size_ + 63) / 64; }
  /// Word `i`: bit b stands for rank 64·i + b. Requires: 0 ≤ i < num_words(), here and in the next.
  std::uint64_t word(int i) const {
    if (i == 0) return first_;
    return more_.empty() ? 0 : more_[static_cast<std::size_t>(i) - 1];
  }
  /// Word `i`, to write. Bits of ranks that there are not must stay 0.
  std::uint64_t& word(int i) {
    if (i == 0) return first_;
    if (more_.empty()) more_.resize(static_cast<std::size_t>(num_words()) - 1);
    return more_[static_cast<std::size_t>(i) - 1];
  }

 private:
  int size_ = 0;
  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> more_;  // empty, or all words but the first
};

}  // namespace stretto
