#pragma once

#include <span>

#include "stretto/check/harness/job_search.h"

namespace stretto {

/// The searches of all collectives but those of papers (papers/register.h), that of the partial allreduce first. To add
/// one, add its line in job_searches.cc.
std::span<const JobSearch> job_searches();

}  // namespace stretto
