#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

/// A set of ranks 0 … size−1, one bit each. The first 64 live inside the object; the others take memory only once one
/// of them has been in the set.
class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(int size) : size_(size) {}

  int size() const { return size_; }
  bool contains(int rank) const { return (word(rank / 64) >> (rank % 64)) & 1u; }
  void insert(int rank) { word(rank / 64) |= std::uint64_t{1} << (rank % 64); }
  void erase(int rank) {
    if (contains(rank)) word(rank / 64) &= ~(std::uint64_t{1} << (rank % 64));
  }
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
  /// Whether every rank is in it.
  bool all() const { return count() == size_; }

  /// Requires: the same size.
  RankSet& operator|=(const RankSet& other) {
    first_ |= other.first_;
    if (more_.size() < other.more_.size()) more_.resize(other.more_.size());
    for (std::size_t i = 0; i < other.more_.size(); ++i) more_[i] |= other.more_[i];
    return *this;
  }
  friend RankSet operator|(RankSet a, const RankSet& b) { return a |= b; }
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

  int num_words() const { return size_ <= 64 ? 1 : (size_ + 63) / 64; }
  std::uint64_t word(int i) const {
    if (i == 0) return first_;
    return more_.empty() ? 0 : more_[static_cast<std::size_t>(i) - 1];
  }
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
