#include "stretto/collective/groups/mixing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace stretto {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

/// Groups::numbers() of every round of a period.
std::vector<std::vector<int>> period_of(const Groups& groups) {
  std::vector<std::vector<int>> out;
  for (Round round = 0; round < groups.period(); ++round) out.push_back(groups.numbers(round));
  return out;
}

/// Of each rank, the ranks whose values have reached it: a bit each.
class Reach {
 public:
  explicit Reach(const Groups& groups)
      : ranks_(index(groups.ranks())),
        words_((ranks_ + 63) / 64),
        of_rank_(ranks_ * words_),
        of_group_(index(groups.count()) * words_) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      of_rank_[rank * words_ + rank / 64] = std::uint64_t{1} << (rank % 64);
    }
  }

  /// One round, of which `group` has the numbers. False if nothing has become known to anybody.
  bool exchange(const std::vector<int>& group) {
    std::ranges::fill(of_group_, 0);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::uint64_t* mine = &of_rank_[rank * words_];
      std::uint64_t* all = &of_group_[index(group[rank]) * words_];
      for (std::size_t word = 0; word < words_; ++word) all[word] |= mine[word];
    }
    bool grown = false;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::uint64_t* all = &of_group_[index(group[rank]) * words_];
      std::uint64_t* mine = &of_rank_[rank * words_];
      for (std::size_t word = 0; word < words_; ++word) {
        grown = grown || mine[word] != all[word];
        mine[word] = all[word];
      }
    }
    return grown;
  }

  bool everywhere() const {
    std::size_t known = 0;
    for (const std::uint64_t word : of_rank_) known += static_cast<std::size_t>(std::popcount(word));
    return known == ranks_ * ranks_;
  }

 private:
  std::size_t ranks_;
  std::size_t words_;
  std::vector<std::uint64_t> of_rank_, of_group_;
};

/// As mixing_number(), of the rounds from `first` on. `period` has the numbers of each round of one.
std::optional<int> rounds_to_mix(const Groups& groups, const std::vector<std::vector<int>>& period, std::size_t first) {
  Reach reach(groups);
  std::size_t idle = 0;  // rounds without anything new
  for (std::size_t rounds = 0; idle < period.size(); ++rounds) {
    if (reach.everywhere()) return static_cast<int>(rounds);
    idle = reach.exchange(period[(first + rounds) % period.size()]) ? 0 : idle + 1;
  }
  return std::nullopt;
}

/// What each rank has, for every rank that may have begun at 1.
class Values {
 public:
  explicit Values(const Groups& groups)
      : ranks_(index(groups.ranks())), of_rank_(ranks_ * ranks_), of_group_(index(groups.count()) * ranks_) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) of_rank_[rank * ranks_ + rank] = 1;
  }

  void average(const std::vector<int>& group) {
    std::ranges::fill(of_group_, 0.0);
    std::vector<int> members(of_group_.size() / ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      ++members[index(group[rank])];
      const double* mine = &of_rank_[rank * ranks_];
      double* sum = &of_group_[index(group[rank]) * ranks_];
      for (std::size_t one = 0; one < ranks_; ++one) sum[one] += mine[one];
    }
    for (std::size_t number = 0; number < members.size(); ++number) {
      double* sum = &of_group_[number * ranks_];
      for (std::size_t one = 0; one < ranks_; ++one) sum[one] /= members[number];
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::copy_n(&of_group_[index(group[rank]) * ranks_], ranks_, &of_rank_[rank * ranks_]);
    }
  }

  /// The largest over the rank that began at 1.
  double distance() const {
    const auto ranks = static_cast<double>(ranks_);
    std::vector<double> squares(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const double* mine = &of_rank_[rank * ranks_];
      for (std::size_t one = 0; one < ranks_; ++one) squares[one] += (mine[one] - 1 / ranks) * (mine[one] - 1 / ranks);
    }
    return std::sqrt(*std::ranges::max_element(squares) / ranks);
  }

 private:
  std::size_t ranks_;
  std::vector<double> of_rank_, of_group_;
};

}  // namespace

std::optional<int> mixing_number(const Groups& groups) {
  const auto period = period_of(groups);
  int worst = 0;
  for (std::size_t first = 0; first < period.size(); ++first) {
    const std::optional<int> rounds = rounds_to_mix(groups, period, first);
    if (!rounds) return std::nullopt;
    worst = std::max(worst, *rounds);
  }
  return worst;
}

std::vector<double> consensus_distances(const Groups& groups, int rounds) {
  std::vector<double> out(index(rounds) + 1);
  const double at_first = Values(groups).distance();
  if (at_first == 0) return out;  // a single rank
  const auto period = period_of(groups);
  for (std::size_t first = 0; first < period.size(); ++first) {
    Values values(groups);
    for (std::size_t done = 0; done < out.size(); ++done) {
      out[done] = std::max(out[done], values.distance() / at_first);
      values.average(period[(first + done) % period.size()]);
    }
  }
  return out;
}

}  // namespace stretto
