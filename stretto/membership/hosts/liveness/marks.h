#pragma once

#include <optional>
#include <span>
#include <string>

#include "stretto/base/error.h"
#include "stretto/membership/hosts/liveness/liveness_rule.h"
#include "stretto/membership/hosts/liveness/news.h"
#include "stretto/transport/members.h"

namespace stretto {

// The rank that speaks for a host keeps in the host's memory, for its other ranks and for the next speaker, who is
// lost.

/// Has a rule learn which ranks have said goodbye to any speaker of this host.
void take_goodbyes(const HostNews& news, const Members& members, LivenessRule& rule, TimePoint now);
/// Has a rule that begins learn all that the speakers before it have left.
void take_up(const HostNews& news, const Members& members, LivenessRule& rule, TimePoint now);

/// As LivenessRule::learn(), and leaves word of a rank that has said goodbye.
void learn_and_keep(const LivenessFact& fact, int by, HostNews& news, LivenessRule& rule, TimePoint now);

/// Carries out an action that marks ranks as lost, but those of this host, which know by themselves. `names`: of the
/// hosts, by rank.
void mark(const LivenessRule::Action& action, const LivenessRule& rule, const Members& members, int host,
          std::span<const std::string> names, Duration limit, HostNews& news);

/// A fact about a rank that follows from the end of the connection to it, for the reason `why`: none, unless its words
/// could not be read. A connection that ends says nothing of a process: the rank may have handed over to its deputy.
std::optional<LivenessFact> end_by_line(int rank, const Error& why);

}  // namespace stretto
