#include "stretto/collective/groups/groups.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/collective/groups/partition.h"

namespace stretto {
namespace {

using Wide = std::int64_t;  // products of ranks

bool is_power_of_two(int number) {
  return std::has_single_bit(static_cast<unsigned>(number));
}
int log2_of(int power) {
  return std::countr_zero(static_cast<unsigned>(power));
}

Wide power(Wide base, Wide exponent) {
  Wide out = 1;
  for (Wide i = 0; i < exponent; ++i) out *= base;
  return out;
}

/// The smallest exponent with base^exponent ≥ number.
int log_up(int base, int number) {
  int exponent = 0;
  for (Wide reached = 1; reached < number; reached *= base) ++exponent;
  return exponent;
}

void check(int ranks, int group_size) {
  if (ranks < 1) throw UsageError(text("groups of ", ranks, " ranks; expected at least 1"));
  if (ranks == 1 && group_size != 1) {
    throw UsageError(
        text("group size ", group_size, " of a job of 1 rank; expected 1: there is nobody to average with"));
  }
  if (ranks > 1 && (group_size < 2 || group_size > ranks)) {
    throw UsageError(text("group size ", group_size, " of a job of ", ranks, " ranks; expected a number from 2 to ",
                          ranks, ", such as ", default_group_size(ranks)));
  }
}

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

/// Groups::numbers() of every round of a period.
std::vector<std::vector<int>> period_of(const Groups& groups) {
  std::vector<std::vector<int>> out;
  for (Round round = 0; round < groups.period(); ++round) out.push_back(groups.numbers(round));
  return out;
}

/// As mixing_number(), of the rounds from `first` on. `period` has the numbers of each round of one.
std::optional<int> rounds_to_mix(const Groups& groups, const std::vector<std::vector<int>>& period, std::size_t first) {
  Reach reach(groups.ranks());
  std::size_t idle = 0;  // rounds without anything new
  for (std::size_t rounds = 0; idle < period.size(); ++rounds) {
    if (reach.everywhere()) return static_cast<int>(rounds);
    idle = reach.exchange({&period[(first + rounds) % period.size()], 1}) ? 0 : idle + 1;
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

Groups::Groups(int ranks, int group_size, GroupOrder order) : ranks_(ranks), group_size_(group_size), order_(order) {
  check(ranks, group_size);
  count_ = (ranks - 1) / group_size + 1;
  cycle_ = std::max(1, log_up(group_size, ranks));
  rule_ = rule_for(ranks, group_size);
}

Groups::Rule Groups::rule_for(int ranks, int group_size) {
  if (group_size == ranks) return Rule::one;
  if (is_power_of_two(ranks) && is_power_of_two(group_size)) return Rule::bits;
  if (power(group_size, log_up(group_size, ranks)) == ranks) return Rule::digits;
  if ((ranks - 1) / group_size + 1 <= group_size) return Rule::blocks_and_residues;
  return Rule::strides;
}

Round Groups::period() const {
  if (order_ == GroupOrder::fixed) return 1;
  switch (rule_) {
    case Rule::one: return 1;
    case Rule::bits: return static_cast<Round>(log2_of(ranks_));
    case Rule::digits: return static_cast<Round>(cycle_);
    case Rule::blocks_and_residues:  // the cycle has two rounds, a block and a residue
    case Rule::strides: break;
  }
  return static_cast<Round>(cycle_) * static_cast<Round>(ranks_);
}

std::vector<int> Groups::numbers(Round round) const {
  if (order_ == GroupOrder::fixed) round = 0;
  std::vector<int> group(static_cast<std::size_t>(ranks_));
  switch (rule_) {
    case Rule::one: return group;
    case Rule::bits: number_by_bits(round, group); break;
    case Rule::digits: number_by_digits(round, group); break;
    case Rule::blocks_and_residues: number_by_blocks_or_residues(round, group); break;
    case Rule::strides: number_by_strides(round, group); break;
  }
  number_by_appearance(group);
  return group;
}

void Groups::number_by_bits(Round round, std::vector<int>& group) const {
  const auto bits = static_cast<Round>(log2_of(ranks_));
  const auto free_bits = static_cast<Round>(log2_of(group_size_));
  Round free = 0;
  for (Round i = 0; i < free_bits; ++i) free |= Round{1} << ((round % bits * free_bits + i) % bits);
  for (Round rank = 0; rank < group.size(); ++rank) group[rank] = static_cast<int>(rank & ~free);
}

void Groups::number_by_digits(Round round, std::vector<int>& group) const {
  const Wide place = power(group_size_, static_cast<Wide>(round % static_cast<Round>(cycle_)));
  for (Wide rank = 0; rank < ranks_; ++rank) {
    group[static_cast<std::size_t>(rank)] = static_cast<int>(rank - rank / place % group_size_ * place);
  }
}

void Groups::number_by_blocks_or_residues(Round round, std::vector<int>& group) const {
  const auto shift = static_cast<Wide>(round / static_cast<Round>(cycle_) % static_cast<Round>(ranks_));
  for (Wide rank = 0; rank < ranks_; ++rank) {
    const Wide x = (rank + shift) % ranks_;
    group[static_cast<std::size_t>(rank)] = static_cast<int>(round % 2 == 0 ? x * count_ / ranks_ : x % count_);
  }
}

void Groups::number_by_strides(Round round, std::vector<int>& group) const {
  const auto cycle = static_cast<Round>(cycle_);
  Wide stride = power(group_size_, static_cast<Wide>(round % cycle));
  while (std::gcd(stride, Wide{ranks_}) != 1) ++stride;
  const Wide shift = static_cast<Wide>(round / cycle % static_cast<Round>(ranks_)) * (group_size_ / 2);
  for (Wide i = 0; i < count_; ++i) {
    for (Wide j = i * ranks_ / count_; j < (i + 1) * ranks_ / count_; ++j) {
      group[static_cast<std::size_t>(stride * ((j + shift) % ranks_) % ranks_)] = static_cast<int>(i);
    }
  }
}

std::vector<int> Groups::members(int rank, Round round) const {
  const std::vector<int> group = numbers(round);
  std::vector<int> out;
  for (int other = 0; other < ranks_; ++other) {
    if (group[static_cast<std::size_t>(other)] == group[static_cast<std::size_t>(rank)]) out.push_back(other);
  }
  return out;
}

std::vector<std::vector<int>> Groups::all(Round round) const {
  return groups_of(numbers(round));
}

int default_group_size(int ranks) {
  if (ranks < 1) throw UsageError(text("groups of ", ranks, " ranks; expected at least 1"));
  if (ranks == 1) return 1;
  int root = 1;  // ⌈√P⌉
  while (Wide{root} * root < ranks) ++root;
  for (Wide size = root; size * size <= 4 * Wide{ranks}; ++size) {
    if (ranks % size == 0) return static_cast<int>(size);
  }
  return root;
}

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
