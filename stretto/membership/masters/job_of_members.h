#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/membership/views/given_places.h"
#include "stretto/membership/views/member_place.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// A job whose members change, for a process that starts some of them: in the process that has the job's master
/// (JobMaster), or in another one (RemoteJob). The owner's thread alone calls.
class JobOfMembers {
 public:
  virtual ~JobOfMembers() = default;

  /// A number that no process has had, and a place: that of `wish` where it is free. Throws Failure
  /// (Errc::unavailable) where all places are taken, or the master is gone or silent.
  virtual MemberPlace give_place(std::optional<int> wish) = 0;
  /// The process of a number has ended, or could not be started.
  virtual void lose(MemberNumber number) = 0;
  /// The register as it is now; as it was last where the master is gone or silent.
  virtual Registered known() = 0;
  /// Has the member leave the job, as by SIGTERM. Without effect for one that is not there.
  virtual void send_away(MemberNumber number) = 0;

  /// Why the process of a number is to be ended.
  enum class Fate : std::uint8_t {
    excluded,        ///< it stood still, and the others go on without it
    lost_with_host,  ///< its host was silent, and is there again: another process may come in its place
    not_come,        ///< the job has ended, and the process has never come to it
  };
  using Kill = FunctionRef<void(MemberNumber, Fate)>;
  using Tell = FunctionRef<void(const std::string& line)>;
  /// Does what has come up since the last call, about ten times a second: gives `kill` the numbers of processes that
  /// are to be ended, and `tell` lines for a person to read.
  virtual void fulfil_wishes(Kill kill, Tell tell) = 0;
};

}  // namespace stretto
