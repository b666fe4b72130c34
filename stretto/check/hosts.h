#pragma once

#include <string>

#include "stretto/base/random.h"
#include "stretto/transport/members.h"

namespace stretto {

/// `ranks` on several hosts, in blocks of unequal size or dealt out in turn, or each anywhere; or all on one, every
/// second time. Fewer hosts than ranks, so that some board has several seats. Requires: ranks > 1.
Members draw_hosts(Random& random, int ranks);

/// "one host", "2 hosts: 0+2 1+3".
std::string text_of_hosts(const Members& members);

}  // namespace stretto
