#include "stretto/train/job/members/job_account.h"

#include <cstring>
#include <span>
#include <vector>

namespace stretto {

std::string encoded_account(const JobProgress& progress, const RunMembers& members, const Ledger& ledger) {
  const std::vector<std::uint64_t> worlds = members.worlds(), rounds = ledger.numbers();
  std::vector<std::uint64_t> all{progress.applied, progress.reached, progress.next_round,
                                 static_cast<std::uint64_t>(progress.elapsed.count()), worlds.size()};
  all.insert(all.end(), worlds.begin(), worlds.end());
  all.insert(all.end(), rounds.begin(), rounds.end());
  return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(std::uint64_t)};
}

JobProgress take_over_account(const std::string& account, RunMembers& members, Ledger& ledger) {
  constexpr std::size_t kBefore = 5;
  std::vector<std::uint64_t> all(account.size() / sizeof(std::uint64_t));
  std::memcpy(all.data(), account.data(), all.size() * sizeof(std::uint64_t));
  if (all.size() < kBefore || all[4] > all.size() - kBefore) {
    throw Failure({Errc::bad_input, "the account of a job that another member has sent is none"});
  }
  ledger.take_over(std::span(all).subspan(kBefore + all[4])).or_throw();
  members.take_over(std::span(all).subspan(kBefore, all[4]));
  return {.applied = all[0],
          .reached = all[1],
          .next_round = all[2],
          .elapsed = Duration(static_cast<Duration::rep>(all[3]))};
}

}  // namespace stretto
