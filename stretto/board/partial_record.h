#pragma once

#include <cstdint>
#include <span>

#include "stretto/board/partial_memory.h"

namespace stretto {

/// Writes the record of a round on a board: its header, and two words of the rule for the decision about the next
/// round. Requires: the stage says that the round is being summed; one rank at a time.
void write_record(const PartialMemory& memory, Round round, const RoundHeader& header,
                  std::span<const std::uint64_t, 2> rule);

/// Reads the header of a round into `header`, whose memory is used again; false if round + W + 1 may have overwritten
/// it meanwhile: then discard everything read from this record before the call (as with a seqlock).
[[nodiscard]] bool read_record(const PartialMemory& memory, Round round, RoundHeader& header);

/// The header of the round that is being summed. Requires: its record is written, and no rank is writing it.
RoundHeader read_own_record(const PartialMemory& memory, Round round);

}  // namespace stretto
