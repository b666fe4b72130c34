#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

/// Parts of a data set, one for each rank, that have at most `most` of the labels each: a function of the arguments
/// alone. Every sample is in one part.
///
/// The samples stand in a row, label after label, both in an order drawn from the seed. The row is cut into pieces of
/// equal size, m for each rank, which are dealt as the seed says; pieces in which two labels meet go to different ranks
/// as far as possible. m is most - 1, or less where some rank would then see more labels than it may. Parts differ by
/// m samples at most.
///
/// Throws UsageError where no m will do, with a number of labels that will. Requires: ranks ≥ 1, most ≥ 1, a sample or
/// more for each rank.
std::vector<std::vector<std::uint32_t>> parts_by_label(std::span<const std::uint32_t> labels, int ranks, int most,
                                                       std::uint64_t seed);

}  // namespace stretto
