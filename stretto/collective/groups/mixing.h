#pragma once

#include <optional>
#include <vector>

#include "stretto/collective/groups/groups.h"

namespace stretto {

/// The mixing number M: after how many rounds what each rank had before the first of them has reached every rank, at
/// worst over the round that is the first. At least Groups::cycle() (0 for one rank). None where it never has, as with
/// fixed groups.
///
/// For all 2,016 pairs 2 ≤ S ≤ P ≤ 64, with L the cycle: M = L in 1,786, L + 1 in 162, L + 2 in 27, and more in 41, all
/// of which have S = 2 and P no power of two. Of the 1,771 with S ≥ √P: L in 1,743, L + 1 in 27, and 5 for P = 3, S
/// = 2.
///
/// Takes period · M · P²/64 steps, milliseconds up to 64 ranks.
std::optional<int> mixing_number(const Groups& groups);

/// How far the ranks are from their mean after 0, 1, … `rounds` rounds in which each takes the mean of its group and
/// does nothing else. One rank begins at 1 and all others at 0, as when one of them has made a step by itself. The
/// distance is the root mean square over the ranks of value − mean of all values, as a share of what it was at first;
/// the largest over the rank that begins at 1, and over the round that is the first.
///
/// It never grows. After M rounds it is 0, up to rounding, if P = S^L, if P and S are powers of two, or if S ≥ √P and
/// m² divides P. Takes period · `rounds` · P² steps. Requires: rounds ≥ 0.
std::vector<double> consensus_distances(const Groups& groups, int rounds);

}  // namespace stretto
