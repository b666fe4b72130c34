#include "stretto/membership/member_worlds.h"

#include <chrono>
#include <utility>

namespace stretto {
namespace {

constexpr Duration kForTheSlowest = std::chrono::hours(24 * 365);  // the master names it, and may go on without it

}  // namespace

Result<std::unique_ptr<PartOfJob>> meet_members(const MemberWorld& world, MemberNumber me, const std::string& job,
                                                MasterLine& line, MemberMeetings& meetings) {
  const View& of = world.of;
  JoinOptions options{.rank = static_cast<int>(*of.place_of(me)),
                      .ranks = static_cast<int>(of.members.size()),
                      .job = text(world.name, " of ", job),
                      .between = world.between,
                      .timeout = kForTheSlowest,
                      .look = world.look};
  const auto named = [&](Result<std::unique_ptr<PartOfJob>> part) {
    if (part) (*part)->context().world().engine().name_ranks(of.names());
    return part;
  };
  if (line.is_on_one_host()) return named(join_on_one_host(options));
  options.bulletin = world.is_of_all ? meetings.bulletin(options.rank, options.ranks, of.epoch)
                                     : meetings.bulletin(options.rank, options.ranks, 0, world.name);
  const auto miss = [&line, of](int rank) {
    ProcessWords words =
        ProcessWords::of(ProcessWords::Kind::misses, of.members[static_cast<std::size_t>(rank)].number);
    words.epoch = of.epoch;
    line.write(words);
  };
  return named(join_world(options, {.limit = line.limit(), .tell = miss}));
}

}  // namespace stretto
