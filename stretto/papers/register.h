#pragma once

#include <vector>

namespace stretto {

struct JobSearch;  // check/harness/job_search.h

/// Adds the algorithms with which papers compare theirs (decentralized averaging, averaging in pairs, parameter
/// servers) to recipes(), and "gs" and "nbcs" to OrderingOptions::named(): those that are built in. `stretto` and the
/// Python package have done so; a program with a loop of its own that wants them calls this in main(), before any rank
/// is started and before register_recipe(); one thread. Again: adds nothing. Throws UsageError where one of their names
/// is taken.
void register_papers();
/// \cond inner
/// The searches of their collectives, for `stretto check`.
std::vector<JobSearch> paper_searches();
/// \endcond

}  // namespace stretto
