#pragma once

#include <cstdint>
#include <vector>

#include "stretto/dispenser/pool.h"
#include "stretto/membership/views/member_words.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// The pool of batches as a view leaves it, once the register has it.
struct PoolChange {
  Pool pool;
  std::vector<std::uint64_t> dropped;  ///< batches, by Pool::kMostLosses
};

/// Returns the pool after `next`: batches of members that are gone, which no round that counts has taken, are to be
/// handed out again. `applied`: in the rounds before the world of `next`.
PoolChange change_pool(const Pool& pool, const View& before, const View& next, const BatchesApplied& applied);

}  // namespace stretto
