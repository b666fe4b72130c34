#pragma once

#include <memory>

#include "stretto/ordering/orderer.h"
#include "stretto/ordering/ordering_options.h"
#include "stretto/ordering/process_set.h"

namespace stretto {

/// The orderer of a process set that this rank is in, as the options say. Requires: check() of the options; a kind but
/// none.
std::unique_ptr<Orderer> make_orderer(const OrderingOptions& options, const ProcessSet& set);

}  // namespace stretto
