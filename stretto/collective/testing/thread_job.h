#pragma once

#include <functional>

#include "stretto/engine/engine.h"
#include "stretto/transport/testing/thread_ranks.h"

namespace stretto {

/// For tests: as run_thread_ranks(), with an engine in each rank.
inline void run_thread_job(int ranks, const std::function<bool(Engine&)>& main) {
  run_thread_ranks(ranks, [&main](Transport& transport, const Clock& clock) {
    Engine engine(transport, clock);
    return main(engine);
  });
}

}  // namespace stretto
