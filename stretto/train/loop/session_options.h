#pragma once

#include <string>

#include "stretto/train/job/session.h"
#include "stretto/train/options/distributed_options.h"

namespace stretto {

/// The options of the session among `options`. Throws UsageError for an option that does not fit, or that the algorithm
/// has no use for.
SessionOptions session_options(const DistributedOptions& options, int ranks);

/// Throws UsageError for options that do not go on where members of the job change.
void check_members(const DistributedOptions& options, int most);

/// Whether the algorithm draws anything by DistributedOptions::seed.
bool draws(const DistributedOptions& options);

/// All that must be the same on every rank.
std::string describe(const DistributedOptions& options);

}  // namespace stretto
