#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/observe/ledger.h"
#include "stretto/train/job/members/run_members.h"

namespace stretto {

/// How far a job is.
struct JobProgress {
  std::uint64_t applied = 0, reached = 0;  ///< batches, as a trainer counts them
  std::uint64_t next_round = 0;
  Duration elapsed{0};  ///< since the first step; 0 before it
};

/// JobProgress::elapsed, where the first step began at `start`.
inline Duration elapsed_since(std::optional<TimePoint> start, TimePoint now) {
  return start ? now - *start : Duration(0);
}

/// The account of a job so far, as a member that comes to it takes it over.
std::string encoded_account(const JobProgress& progress, const RunMembers& members, const Ledger& ledger);
/// Takes over what encoded_account() of another member has written. Throws Failure (Errc::bad_input) where it is none.
JobProgress take_over_account(const std::string& account, RunMembers& members, Ledger& ledger);

}  // namespace stretto
