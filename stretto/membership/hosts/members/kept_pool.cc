#include "stretto/membership/hosts/members/kept_pool.h"

#include <sstream>
#include <utility>
#include <vector>

namespace stretto {
namespace {

// What stands in the register: a pool, and the batches handed out since, in order. That of a member follows from what
// the pool has.
constexpr const char* kPool = "pool";
constexpr const char* kTake = "take";

}  // namespace

KeptPool::KeptPool(Register& reg, std::function<void(const std::string& line)> tell)
    : register_(reg), tell_(std::move(tell)) {
  restore();
}

void KeptPool::restore() {
  pool_.reset();
  const std::vector<std::string> lines = register_.beside();  // a line may have the register read
  for (const std::string& line : lines) restore(line);
}

void KeptPool::restore(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  words >> kind >> batches_ >> plan_;
  if (kind == kPool) {
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t number = 0; words >> number;) numbers.push_back(number);
    pool_ = Pool::from_numbers(batches_, numbers).or_throw();
    return;
  }
  std::uint64_t member = 0, computed = 0;
  words >> member >> computed;
  if (!pool_) pool_ = Pool::from_position(batches_, register_.read().or_throw().view.position).or_throw();
  pool_->computed(member, computed);
  pool_->take(member);
}

Result<std::optional<std::uint64_t>> KeptPool::hand_out(MemberNumber member, std::uint64_t taken,
                                                        std::uint64_t computed, std::uint64_t batches,
                                                        std::uint64_t plan,
                                                        const std::vector<std::uint64_t>& position) {
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
  if (const auto batch = pool_->handed_after(member, taken)) return batch;  // the answer has not come
  // Written before anybody hears of it: a batch that is not written has not been handed out.
  const auto noted = register_.note(text(kTake, ' ', batches_, ' ', plan_, ' ', member, ' ', computed));
  if (!noted && noted.error().code == Errc::excluded) {  // nothing, until this master knows what that has written
    if (register_.read()) restore();
    return std::optional<std::uint64_t>();
  }
  pool_->computed(member, computed);
  const auto batch = pool_->take(member);
  if (!noted && std::exchange(is_written_, false)) {
    tell_(text(noted.error().message,
               ": the job goes on, but were the master killed before members change again, "
               "batches would be computed twice"));
  }
  return batch;
}

std::string KeptPool::words_of(const Pool& pool) const {
  std::string words = text(kPool, ' ', batches_, ' ', plan_);
  for (const std::uint64_t number : pool.numbers()) words += text(' ', number);
  return words;
}

void KeptPool::commit(Pool pool) {
  pool_ = std::move(pool);
  is_written_ = true;
}

}  // namespace stretto
