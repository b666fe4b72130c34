#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "command/reproduce/reproductions.h"

namespace stretto::command {

/// A statement about two groups of an experiment, by a number of each run of which less is better.
struct Claim {
  enum class Kind {
    below,      ///< the ratio is below 1, with 95 % confidence
    not_above,  ///< the ratio is not above 1 with 95 % confidence: below, or within the spread
  };
  std::size_t group = 0;
  Kind kind = Kind::below;
  std::size_t other = 0;
};

/// A line for each claim: the ratio of `group` to `other`, seed by seed, as a geometric mean with its 95 % interval,
/// and whether the claim holds. With a single run a group nothing is claimed. Requires: `values` as the groups and
/// their runs; all above 0.
Judgement judge_claims(const Experiment& finished, const std::string& of_what, std::span<const Claim> claims,
                       std::span<const std::vector<double>> values);

}  // namespace stretto::command
