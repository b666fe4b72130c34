#pragma once

#include <span>
#include <string>
#include <vector>

namespace stretto {

/// On which cores the threads of a rank run (SCP: Pumma et al., "Alleviating Load Imbalance in Data Processing for
/// Large-Scale Deep Learning", section IV-C), by the numbers of the cores. Ranks that may run on the same cores have
/// the same sets.
struct CoreSets {
  std::vector<int> application;  ///< forward and backward pass; empty: any
  std::vector<int> input;        ///< InputPipeline; empty: any
  std::vector<int> background;   ///< the helper thread of the engine; empty: any
  bool lends = false;            ///< dynamic: the helper thread runs on any core, before the others (nice)
  bool overlap = false;          ///< shared: fewer than three cores, of which sets may have one in common

  /// Whether any thread has a place of its own.
  bool any() const { return lends || !background.empty(); }
  friend bool operator==(const CoreSets&, const CoreSets&) = default;  ///< same cores, cut alike
};

/// Cuts the cores of `allowed` into disjoint sets: one for the helper thread, the others by the number of threads, at
/// least one each. `written`: empty (that), "shared" (the same where there are fewer than three cores, with some in
/// common), "dynamic" (all for application and input; the helper thread goes before them), or the sets themselves, as
/// in "app=0-2,input=3+4,bg=5". Throws UsageError for fewer than three cores, for a core that is not allowed, for sets
/// that overlap, for input threads without a set, which would run on the others' cores, and for other text.
CoreSets parse_core_sets(const std::string& written, std::span<const int> allowed, int application_threads,
                         int input_threads);

/// "app 0+1+2, input 3+4, background 5".
std::string to_text(const CoreSets& sets);

}  // namespace stretto
