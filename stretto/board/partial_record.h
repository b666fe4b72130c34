#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stretto/board/partial_memory.h"

namespace stretto {

/// Writes down what a round on a board has become: its header, and two words for whoever decides about the next one.
/// Requires: the stage says that the round is being summed; one rank at a time.
void write_record(const PartialMemory& memory, Round round, const RoundHeader& header,
                  std::span<const std::uint64_t, 2> rule);

/// The header of a round, or nothing where it is overwritten by that of W + 1 rounds later, and then what was read of
/// the round's record before means nothing.
std::optional<RoundHeader> read_record(const PartialMemory& memory, Round round);

/// What the record of a round says that is being summed. Requires: it is written, and nobody writes it.
RoundHeader read_own_record(const PartialMemory& memory, Round round);

}  // namespace stretto
