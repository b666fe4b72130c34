#pragma once

#include <optional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto {

class Driver;

/// The interface of every collective beside its rounds, so that an owner of several, of any kind, can stop all of them
/// and say whom they wait for. One application thread, but where it says otherwise.
class Collective {
 public:
  virtual ~Collective() = default;  ///< application thread, with no call under way

  /// Stops this collective on every rank: each pending and later call fails with `why`, whose code and rank arrive as
  /// they are. Of Errc::aborted `rank` is the rank that stops the job; the others hear "rank 2 stopped the job: …".
  /// Returns when the collective has failed here, after five seconds at the latest.
  virtual void abort(Driver& driver, const Error& why) = 0;

  /// The failure that is final, if there was one. Thread-safe.
  virtual std::optional<Error> failure() const = 0;

  /// Which ranks the call waits for that has timed out last, as a sentence: "round 412 (full) waits for rank 3
  /// (computing)". Where the other ranks must be asked, waits so long for their answers.
  virtual std::string who_is_missing(Driver& driver, Duration timeout) = 0;
};

}  // namespace stretto
