#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

/// The batches that one rank got from its dispenser, and how many of them it has deposited, in the order it got them.
struct RankLog {
  std::vector<std::uint64_t> handed_out;  ///< sequence numbers
  std::uint64_t deposited = 0;            ///< so many of them, from the first on
  friend bool operator==(const RankLog&, const RankLog&) = default;
};

/// Where a job stands in its data: every batch below `next` is used, but those in `returned`.
struct DispenserPosition {
  std::uint64_t next = 0;
  std::vector<std::uint64_t> returned;  ///< handed out but not used; ascending
  std::vector<std::uint64_t> steps;     ///< per rank: its own steps so far

  DispenserPosition() = default;
  /// The start of a job.
  explicit DispenserPosition(int ranks) : steps(static_cast<std::size_t>(ranks), 0) {}
  friend bool operator==(const DispenserPosition&, const DispenserPosition&) = default;
};

/// The position of a job that started at `before` and whose ranks wrote `logs`. Batches that were handed out and not
/// deposited, or are in no log, go back. Errc::bad_input names a batch that was used twice, or another contradiction.
Result<DispenserPosition> position_after(const DispenserPosition& before, std::span<const RankLog> logs);

/// The position after `before`, once `logs` hold all batches that members of a job have been handed since, and all of
/// these are used. Batches in them from before count no second time; those `in_hand` are not used, also where `before`
/// says so. Leaves the steps as they are.
DispenserPosition position_after_all(const DispenserPosition& before, std::span<const std::vector<std::uint64_t>> logs,
                                     std::span<const std::uint64_t> in_hand = {});

/// The batches that a job at `start` has left are counted up from 0, those that came back first. Returns where the job
/// stands when this count stands at `of_rest`, with the steps of `start`.
DispenserPosition position_from(const DispenserPosition& start, const DispenserPosition& of_rest);

/// As JSON text, for a checkpoint; from_json refuses text that to_json cannot have written (Errc::bad_input).
std::string to_json(const RankLog& log);
std::string to_json(const DispenserPosition& position);
Result<RankLog> rank_log_from_json(const std::string& json);
Result<DispenserPosition> position_from_json(const std::string& json);

}  // namespace stretto
