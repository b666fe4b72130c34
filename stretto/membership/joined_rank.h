#pragma once

#include <memory>
#include <optional>
#include <string>

#include "stretto/membership/job.h"
#include "stretto/membership/rank_end.h"
#include "stretto/transport/hosts/link_watch.h"

namespace stretto {

/// A JoinedRank's part of its job. Not of a process that was forked since, but for its destructor.
class PartOfJob {
 public:
  virtual ~PartOfJob() = default;  ///< without leave() the others hear that this rank is lost
  virtual RankContext& context() = 0;
  virtual JobResult leave(Duration limit) = 0;    ///< JoinedRank::leave(), once
  virtual void tell(const RankMessage& why) = 0;  ///< says on standard error why the rank ends, as tell_why()
  const std::optional<RankMessage>& complaint() const { return said_.complaint; }  ///< of the rank

 protected:
  RankMessages said_;  ///< what the rank's context is told
};

/// The wait status of a rank that has not said goodbye: ended with exit status 1.
inline constexpr int kFailed = 1 << 8;

/// Comes to a job whose members change, by `options.member`, when its context's world is first asked for.
std::unique_ptr<PartOfJob> join_as_member(const JoinOptions& options);
/// Joins a job whose ranks all share memory.
Result<std::unique_ptr<PartOfJob>> join_on_one_host(const JoinOptions& options);
/// Joins a job on several hosts, by `options.bulletin`.
Result<std::unique_ptr<PartOfJob>> join_across_hosts(const JoinOptions& options);
/// Joins one world of a job whose members change, on several hosts or one, by `options.bulletin`. Nobody speaks for its
/// host there, since the job's master says who is lost, and rank 0 keeps no counters. `missed`: of ranks by their
/// numbers in that world, also while they meet.
Result<std::unique_ptr<PartOfJob>> join_world(const JoinOptions& options, const MissedPeers& missed);

}  // namespace stretto
