#include <bit>
#include <type_traits>

#include "stretto/base/error.h"
#include "stretto/observe/ledger.h"

// A ledger as plain numbers, for a rank that comes to a job that is under way.

namespace stretto {
namespace {

constexpr std::size_t kRoundsTold = 4;  // whose waits may become known later

class NumbersOut {
 public:
  explicit NumbersOut(std::vector<std::uint64_t>& numbers) : numbers_(numbers) {}
  template <class Number>
  void operator()(const Number& number) {
    if constexpr (std::is_same_v<Number, double>) {
      numbers_.push_back(std::bit_cast<std::uint64_t>(number));
    } else {
      numbers_.push_back(static_cast<std::uint64_t>(number));
    }
  }
  /// Of a list, which has its size in front.
  template <class List>
  void size(const List& list) {
    numbers_.push_back(list.size());
  }

 private:
  std::vector<std::uint64_t>& numbers_;
};

class NumbersIn {
 public:
  explicit NumbersIn(std::span<const std::uint64_t> numbers) : numbers_(numbers) {}
  template <class Number>
  void operator()(Number& number) {
    if constexpr (std::is_same_v<Number, double>) {
      number = std::bit_cast<double>(next());
    } else {
      number = static_cast<Number>(next());
    }
  }
  template <class List>
  void size(List& list) {
    list.resize(std::min<std::uint64_t>(next(), numbers_.size()));
  }
  bool is_read() const { return numbers_.empty() && !short_; }

 private:
  std::uint64_t next() {
    if (numbers_.empty()) return short_ = true, 0;
    const std::uint64_t number = numbers_.front();
    numbers_ = numbers_.subspan(1);
    return number;
  }
  std::span<const std::uint64_t> numbers_;
  bool short_ = false;
};

template <class Visit, class Account>
void visit_account(Visit& visit, Account& account) {
  visit(account.arrived), visit(account.fresh), visit(account.stale), visit(account.null);
  visit(account.computed), visit(account.waited), visit(account.late), visit(account.lost);
}

template <class Visit>
void visit_set(Visit& visit, const RankSet& set) {
  for (int i = 0; i < set.num_words(); ++i) visit(set.word(i));
}

void visit_set(NumbersIn& visit, RankSet& set) {
  for (int i = 0; i < set.num_words(); ++i) {
    std::uint64_t word = 0;
    visit(word);
    for (; word != 0; word &= word - 1) {
      const int rank = 64 * i + std::countr_zero(word);
      if (rank < set.size()) set.insert(rank);
    }
  }
}

}  // namespace

template <class Visit, class Self>
void Ledger::visit_counts(Visit& visit, Self& self) {
  visit_account(visit, self.unnamed_);
  visit(self.rounds_without_names_);
  visit.size(self.histogram_);
  for (auto& batches : self.histogram_) visit(batches);
  visit(self.rounds_), visit(self.empty_rounds_), visit(self.batches_), visit(self.samples_);
  visit(self.staleness_sum_), visit(self.staleness_max_), visit(self.seconds_);
}

std::vector<std::uint64_t> Ledger::numbers() const {
  Ledger told = *this;
  while (told.num_waiting_ > kRoundsTold) {
    told.blame(told.waiting_.front());
    told.forget_first_waiting();
  }
  return told.all_numbers();
}

std::vector<std::uint64_t> Ledger::all_numbers() const {
  std::vector<std::uint64_t> all;
  NumbersOut visit(all);
  visit(accounts_.size());
  for (const RankAccount& account : accounts_) visit_account(visit, account);
  for (const std::uint64_t round : last_arrival_) visit(round);
  visit(rounds_of_policy_.size());
  for (const auto& [policy, rounds] : rounds_of_policy_) visit(policy), visit(rounds);
  visit(num_waiting_);
  for (std::size_t i = 0; i < num_waiting_; ++i) {
    const Waiting& waiting = waiting_[i];
    visit(waiting.round), visit(waiting.unknown);
    visit_set(visit, waiting.arrived), visit_set(visit, waiting.drained);
    for (const double wait : waiting.waits) visit(wait);
  }
  visit_counts(visit, *this);
  return all;
}

Result<void> Ledger::take_over(std::span<const std::uint64_t> numbers) {
  const Error no_ledger{Errc::bad_input, "the account of a job that another member has sent is none", -1};
  NumbersIn visit(numbers);
  std::uint64_t size = 0;
  visit(size);
  if (size > numbers.size()) return no_ledger;
  Ledger next(static_cast<int>(std::max<std::uint64_t>(size, 1)), hosts_);
  for (RankAccount& account : next.accounts_) visit_account(visit, account);
  for (std::uint64_t& round : next.last_arrival_) visit(round);
  visit(size);
  for (std::uint64_t i = 0; i < size && i < numbers.size(); ++i) {
    std::uint64_t policy = 0;
    visit(policy);
    visit(next.rounds_of_policy_[policy]);
  }
  visit(next.num_waiting_);
  next.make_room();
  if (next.num_waiting_ > next.waiting_.size()) return no_ledger;
  for (Waiting& waiting : next.waiting()) {
    visit(waiting.round), visit(waiting.unknown);
    visit_set(visit, waiting.arrived), visit_set(visit, waiting.drained);
    waiting.waits.resize(next.accounts_.size());
    for (double& wait : waiting.waits) visit(wait);
  }
  visit_counts(visit, next);
  if (!visit.is_read()) return no_ledger;
  const int ranks = this->ranks();
  *this = std::move(next);
  grow(ranks);
  return {};
}

}  // namespace stretto
