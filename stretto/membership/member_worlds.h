#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "stretto/base/error.h"
#include "stretto/membership/hosts/members/master_line.h"
#include "stretto/membership/hosts/members/member_meetings.h"
#include "stretto/membership/joined_rank.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// A world that a member meets others in.
struct MemberWorld {
  View of;                     ///< its members, by rank
  std::string name;            ///< the same in all of them
  bool is_of_all = false;      ///< the members of a view, whose epoch names it
  std::function<void()> look;  ///< JoinOptions::look
  std::string between;         ///< JoinOptions::between
};

/// Meets them: in the memory of this host, where the master is reached at a loopback address, else at an address that
/// the first has the master tell the others. The master hears whom this member misses. `job`: the same words in all
/// members of the job, its secret among them. Waits as long as it takes; what `look` throws passes through.
Result<std::unique_ptr<PartOfJob>> meet_members(const MemberWorld& world, MemberNumber me, const std::string& job,
                                                MasterLine& line, MemberMeetings& meetings);

}  // namespace stretto
