#pragma once

#include <string>
#include <string_view>

namespace stretto::command {

/// How many ranks `--ranks` of `stretto run` asks for.
struct RankRange {
  int least = 0;          ///< with which the job goes on
  int most = 0;           ///< that are started
  bool is_range = false;  ///< it was given as MIN:MAX: members may change
};

/// Reads "4" and "2:8", both with numbers from 1 to 1024. Throws UsageError.
RankRange parse_rank_range(std::string_view option, const std::string& text);

}  // namespace stretto::command
