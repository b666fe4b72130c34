#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stretto/base/random.h"

namespace stretto {

// Momentum exchange (Peng, UCB/EECS-2018-77, section 6.1.7): nodes are particles of equal mass, whose velocities are
// the momenta of their optimizers, and collide elastically, as those of a gas do whose energy comes to be spread
// equally over all dimensions.

/// A unit vector of so many numbers; all directions are as likely.
std::vector<double> random_direction(Random random, std::size_t dimensions);

/// Two nodes exchange what they have along a unit vector: a ← a − ((a − b)·u)u, b ← b + the same. The sum of both, and
/// that of their squares, stay. Requires: the same length.
void collide(std::span<double> a, std::span<double> b, std::span<const double> direction);

/// By how much a node of a line changes where each one's part along the unit vector is turned about the mean of the
/// line: −2((v − mean)·u), along u. Of two nodes that is collide(); of more the sum of all and that of their squares
/// stay, too. `sum` is that of `members` nodes, `own` of one of them. Requires: the same length.
double turn_about_mean(std::span<const float> own, std::span<const float> sum, int members,
                       std::span<const double> direction);

}  // namespace stretto
