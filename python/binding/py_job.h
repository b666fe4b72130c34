#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "stretto/membership/job.h"

namespace stretto::python {

/// This process's rank of a job, from the meeting with the other ranks to leave(). Loops over it end before.
class PyJob {
 public:
  /// Meets the other ranks; the lock is not held.
  explicit PyJob(const JoinOptions& options);

  /// Where members of the job change rank() and ranks() are of the present world, into which they let this process, as
  /// all do that asks the context for its world; after leave() of the last one.
  int rank();
  int ranks();
  bool members_change() const { return members_change_; }
  int local_rank() { return context().local_rank(); }
  int local_ranks() { return context().local_size(); }
  /// Throws UsageError after leave().
  RankContext& context();
  bool left() const { return left_; }
  /// `end` is called before the job is left, unless remove_part() is called before.
  void add_part(const void* part, std::function<void()> end) { parts_[part] = std::move(end); }
  void remove_part(const void* part) { parts_.erase(part); }
  /// Says goodbye to the others.
  void leave();
  /// Goes without a goodbye: the others hear why, or that this rank is lost where `why` is empty.
  void abandon(const std::string& why);

 private:
  void end_parts();

  void look_at_world();

  int rank_;
  int ranks_;
  const bool members_change_;
  std::optional<JoinedRank> joined_;
  std::map<const void*, std::function<void()>> parts_;  // what needs the job as long as it is there
  bool left_ = false;
};

void bind_job(nanobind::module_& module);

}  // namespace stretto::python
