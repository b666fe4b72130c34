#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

/// A set of ranks 0 … size−1, one bit each. Up to 64 ranks live inside the object.
class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(int size) : size_(size) {
    if (size > 64) more_.resize((static_cast<std::size_t>(size) + 63) / 64 - 1);
  }

  int size() const { return size_; }
  bool contains(int rank) const { return (word(rank / 64) >> (rank % 64)) & 1u; }
  void insert(int rank) { word(rank / 64) |= std::uint64_t{1} << (rank % 64); }
  void erase(int rank) { word(rank / 64) &= ~(std::uint64_t{1} << (rank % 64)); }
  void clear() {
    first_ = 0;
    for (auto& w : more_) w = 0;
  }
  int count() const {
    int n = std::popcount(first_);
    for (auto w : more_) n += std::popcount(w);
    return n;
  }
  bool empty() const { return count() == 0; }
  bool full() const { return count() == size_; }

  /// Requires: the same size.
  RankSet& operator|=(const RankSet& other) {
    first_ |= other.first_;
    for (std::size_t i = 0; i < more_.size(); ++i) more_[i] |= other.more_[i];
    return *this;
  }
  friend RankSet operator|(RankSet a, const RankSet& b) { return a |= b; }
  friend bool operator==(const RankSet&, const RankSet&) = default;

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

  int num_words() const { return 1 + static_cast<int>(more_.size()); }
  std::uint64_t word(int i) const { return i == 0 ? first_ : more_[static_cast<std::size_t>(i) - 1]; }
  std::uint64_t& word(int i) { return i == 0 ? first_ : more_[static_cast<std::size_t>(i) - 1]; }

 private:
  int size_ = 0;
  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> more_;
};

}  // namespace stretto
