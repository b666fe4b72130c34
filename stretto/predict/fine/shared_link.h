#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "stretto/predict/model/training_job.h"

namespace stretto {

/// One direction of a network card that several workers use, or a server's processor; Algorithm 1's active list with
/// its Share() (Li et al., 2.2.2). A worker has one flow at a time. Work is in seconds alone on the link, without a
/// cap; times in seconds on the caller's clock, which never goes back.
class SharedLink {
 public:
  virtual ~SharedLink() = default;

  /// `worker`, which has no flow here, gets one.
  virtual void begin(double now, int worker, double work) = 0;
  /// When the earliest flow will be over if nothing changes before, and whose it is. Requires: a flow (see empty()).
  virtual double earliest() const = 0;
  virtual int first() const = 0;
  virtual bool empty() const = 0;
  /// That flow is over, at `now` = earliest(). Its worker keeps its place for `work` that it has next, or leaves.
  virtual void finish(double now, std::optional<double> work) = 0;
};

/// A link on which a flow gets at most `cap` of the rate: 1 where flows are not limited. Requires: 0 < cap ≤ 1.
std::unique_ptr<SharedLink> make_link(LinkSharing sharing, double cap);

}  // namespace stretto
