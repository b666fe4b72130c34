#pragma once

#include "stretto/transport/transport.h"

namespace stretto {

/// Where a rank stands in the protocol (docs/protocol.md), as it knows itself: for diagnosis and for tests.
struct ProtocolState {
  Round ticket = 0, handed = 0, complete = 0, joined = 0, activated = 0;
  bool waiting = false, drained = false;
  bool full = false;  ///< the policy of round `complete`
};

}  // namespace stretto
