#pragma once

#include <cstdint>

#include "stretto/check/harness/job_search.h"

namespace stretto {

inline constexpr Situation kPairReaches[] = {
    {"steps during which another rank has changed the model"},
    {"answers that come after the asking rank's next step"},
    {"phases in which a rank has no batches"},
};

/// Runs the job of `seed` through the real engine and the real PairExchange (papers/pairs/pair_exchange.h): ranks
/// that make steps of their own on models of residues, exchange them in pairs, and meet now and then. Each access of an
/// application to the model and each step of an engine is an event of its own. Checks that the sum of all models has
/// moved by the steps alone, exactly, whenever nothing is in flight; that a rank which only answers waits for none;
/// that all ranks get to the end, with the same model.
void run_ad_psgd_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

/// The same with a center, which is part of the sum and becomes the model of all ranks when they meet.
void run_easgd_async_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
