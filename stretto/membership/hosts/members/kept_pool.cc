#include "stretto/membership/hosts/members/kept_pool.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace stretto {
namespace {

// The register has a pool, and the notes since, in order: batches that are handed out to members in turn, or taken
// back. That of a member follows from what the pool has.
constexpr const char* kPool = "pool";
constexpr const char* kTake = "take";
constexpr const char* kBack = "back";
constexpr const char* kHere = "here";  // a master has begun its term

constexpr std::uint64_t kMostAhead = 512;                // batches, of a member
constexpr std::uint64_t kParts = 8;                      // and at most such a part of what is left for it
constexpr Duration kLast = std::chrono::seconds(60);     // so long they are to last
constexpr Duration kTryAgain = std::chrono::seconds(1);  // a register that does not answer

}  // namespace

KeptPool::KeptPool(Register& reg, std::function<void(const std::string& line)> tell)
    : register_(reg), tell_(std::move(tell)) {
  restore();
}

void KeptPool::restore() {
  pool_.reset();
  told_.clear();
  const std::vector<std::string> lines = register_.beside();  // a line may have the register read
  for (const std::string& line : lines) restore(line);
}

void KeptPool::restore(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  words >> kind;
  if (kind == kHere || kind == kPool) {
    std::uint64_t term = 0;
    words >> term;
    term_ = std::max(term_, term);
  }
  if (kind == kHere) return;
  words >> batches_ >> plan_;
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; words >> number;) numbers.push_back(number);
  if (kind == kPool) {
    pool_ = Pool::from_numbers(batches_, numbers).or_throw();
    return;
  }
  if (!pool_) pool_ = Pool::from_position(batches_, register_.read().or_throw().view.position).or_throw();
  if (kind == kBack) {
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) pool_->take_back(numbers[i], numbers[i + 1]);
    return;
  }
  for (std::size_t i = 1; i + 1 < numbers.size(); i += 2) pool_->computed(numbers[i], numbers[i + 1]);
  for (std::uint64_t turn = 0; !numbers.empty() && turn < numbers[0]; ++turn) {
    for (std::size_t i = 1; i + 1 < numbers.size(); i += 2) {
      register_.is_shared() ? pool_->reserve(numbers[i]) : pool_->take(numbers[i]);
    }
  }
}

void KeptPool::has_come(MemberNumber member, std::uint64_t taken) {
  std::uint64_t& told = told_[member];
  told = std::max(told, taken);
  if (pool_) pool_->told(member, told);
}

Result<std::optional<std::uint64_t>> KeptPool::hand_out(MemberNumber member, std::uint64_t taken,
                                                        std::uint64_t computed, std::uint64_t batches,
                                                        std::uint64_t plan, const std::vector<std::uint64_t>& position,
                                                        TimePoint now) {
  if (!pool_) {
    auto pool = Pool::from_position(batches, position);
    if (!pool) return pool.error();
    pool_ = *std::move(pool);
    batches_ = batches;
    plan_ = plan;
  }
  if (batches != batches_ || plan != plan_) {
    return Error{Errc::bad_input, text("its batches are not those of the job: ", batches, " in all, and of the job ",
                                       batches_, "; expected the same data, batch size, epochs and seed")};
  }
  const Error later{Errc::unavailable, "the register does not answer"};
  if (register_.is_shared() && !note_term(now)) return later;
  has_come(member, taken);
  auto batch = pool_->handed_after(member, taken);  // noted, or the answer has not come
  const bool has_few = register_.is_shared() && pool_->untold(member) <= each_ / 2 && !pool_->is_empty();
  if (!batch && pool_->is_empty() && !pool_->has_gone(member) && !take_back(now)) return later;
  if (!batch || has_few) {
    const bool is_noted = reserve(member, computed, now);
    if (!batch && !is_noted) return later;
    if (is_noted) batch = pool_->handed_after(member, taken);
  }
  if (batch) has_come(member, taken + 1);
  return batch;
}

bool KeptPool::note_term(TimePoint now) {
  if (!is_here_) {
    is_here_ = note(text(kHere, ' ', register_.term()), now) == Written::done;
    if (is_here_) term_ = std::max(term_, register_.term());
  }
  return is_here_;
}

Written KeptPool::note(const std::string& line, TimePoint now) {
  if (now < try_again_ || term_ > register_.term()) return Written::refused;
  if (is_old_) {
    is_old_ = !register_.read();
    if (is_old_) {
      try_again_ = now + kTryAgain;
    } else {
      restore();
    }
    return Written::refused;
  }
  const auto noted = register_.note(line);
  if (noted) {
    is_written_ |= register_.is_shared();
    return Written::done;
  }
  is_old_ = register_.is_shared();
  if (noted.error().code == Errc::excluded) return Written::refused;
  if (std::exchange(is_written_, false)) {
    tell_(text(noted.error().message, is_old_ ? ": members compute the batches that are noted, and wait then"
                                              : ": the job goes on, but were the master killed before members change "
                                                "again, batches would be computed twice"));
  }
  if (!is_old_) return Written::done;  // as good as it can be
  try_again_ = now + kTryAgain;
  return Written::unknown;
}

bool KeptPool::reserve(MemberNumber member, std::uint64_t computed, TimePoint now) {
  std::map<MemberNumber, std::uint64_t> members{{member, computed}};
  if (register_.is_shared()) {
    if (now - reserved_at_ < kLast) ahead_ = std::min(2 * ahead_, kMostAhead);
    each_ = std::clamp<std::uint64_t>(pool_->left() / (kParts * told_.size()), 1, ahead_);
    for (const auto& [other, told] : told_) {
      const bool has_few = pool_->untold(other) <= each_ / 2 && !pool_->has_gone(other);
      if (has_few && told > 0) members.try_emplace(other, 0);
    }
  }
  std::string line = text(kTake, ' ', batches_, ' ', plan_, ' ', each_);
  for (const auto& [number, count] : members) line += text(' ', number, ' ', count);
  if (note(line, now) != Written::done) return false;
  reserved_at_ = now;
  restore(line);
  return true;
}

/// Where nobody has any that it was not told there is nothing to take back, and nothing to wait for.
bool KeptPool::take_back(TimePoint now) {
  std::string line = text(kBack, ' ', batches_, ' ', plan_);
  bool is_there = false, is_known = false;
  for (const MemberNumber number : pool_->members()) {
    if (pool_->untold(number) == 0 || pool_->has_gone(number)) continue;
    is_there = true;
    if (!told_.contains(number)) continue;  // it comes, or is lost
    is_known = true;
    line += text(' ', number, ' ', pool_->known_to(number));
  }
  if (!is_there) return true;
  if (!is_known) return false;
  const Written noted = note(line, now);
  if (noted != Written::refused) restore(line);  // nobody is told of any of these before it is known
  return noted == Written::done;
}

std::string KeptPool::words_of(const Pool* pool) const {
  if (pool == nullptr) return register_.is_shared() ? text(kHere, ' ', term_) : "";
  std::string words = text(kPool, ' ', term_, ' ', batches_, ' ', plan_);
  for (const std::uint64_t number : pool->numbers()) words += text(' ', number);
  return words;
}

void KeptPool::commit(Pool pool) {
  pool_ = std::move(pool);
  is_written_ = true;
}

}  // namespace stretto
