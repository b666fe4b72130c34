#include "stretto/collective/groups/partition.h"

#include <algorithm>
#include <bit>

namespace stretto {

void number_by_appearance(Partition& partition) {
  std::vector<int> number(partition.size(), -1);
  int next = 0;
  for (int& one : partition) {
    int& given = number[static_cast<std::size_t>(one)];
    if (given < 0) given = next++;
    one = given;
  }
}

std::vector<std::vector<int>> groups_of(const Partition& partition) {
  std::vector<std::vector<int>> out(static_cast<std::size_t>(*std::ranges::max_element(partition)) + 1);
  for (std::size_t rank = 0; rank < partition.size(); ++rank) {
    out[static_cast<std::size_t>(partition[rank])].push_back(static_cast<int>(rank));
  }
  return out;
}

Reach::Reach(int ranks)
    : ranks_(static_cast<std::size_t>(ranks)), words_((ranks_ + 63) / 64), of_rank_(ranks_ * words_) {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    of_rank_[rank * words_ + rank / 64] = std::uint64_t{1} << (rank % 64);
  }
}

bool Reach::exchange(std::span<const Partition> partitions) {
  before_ = of_rank_;
  for (const Partition& group : partitions) {
    of_group_.assign(of_rank_.size(), 0);  // no more groups than ranks
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::uint64_t* mine = &before_[rank * words_];
      std::uint64_t* all = &of_group_[static_cast<std::size_t>(group[rank]) * words_];
      for (std::size_t word = 0; word < words_; ++word) all[word] |= mine[word];
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::uint64_t* all = &of_group_[static_cast<std::size_t>(group[rank]) * words_];
      std::uint64_t* mine = &of_rank_[rank * words_];
      for (std::size_t word = 0; word < words_; ++word) mine[word] |= all[word];
    }
  }
  return of_rank_ != before_;
}

bool Reach::everywhere() const {
  std::size_t known = 0;
  for (const std::uint64_t word : of_rank_) known += static_cast<std::size_t>(std::popcount(word));
  return known == ranks_ * ranks_;
}

}  // namespace stretto
