#pragma once

#include <memory>

#include "stretto/ordering/orderer.h"
#include "stretto/ordering/ordering_options.h"
#include "stretto/ordering/process_set.h"
#include "stretto/ordering/waiting/rank_patience.h"

namespace stretto {

/// The orderer of a process set that this rank is in, as the options say. Requires: check() of the options; a kind but
/// none. `patience`: of this rank, for all of its sets; outlives the orderer.
std::unique_ptr<Orderer> make_orderer(const OrderingOptions& options, const ProcessSet& set, RankPatience& patience);

}  // namespace stretto
