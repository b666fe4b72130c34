#pragma once

#include <cstdint>

#include "stretto/base/clock.h"

namespace stretto {

/// Counts of what a node has done in its line of one dimension of a grid, or in its lines, where they change. Rounds
/// and contributions are counted in numbers of them.
struct GridCounts {
  std::uint64_t opened = 0;     ///< rounds that this node has taken part in
  std::uint64_t skipped = 0;    ///< rounds that it has not, since a newer one came first
  std::uint64_t completed = 0;  ///< rounds of `opened` with the means that the threshold asks for
  std::uint64_t forced = 0;     ///< … that a newer one has ended before
  std::uint64_t abandoned = 0;  ///< … that had ended, and were dropped for newer ones before the application took them
  std::uint64_t applied = 0;    ///< … whose means the application has taken

  // Contributions to the slice that this node averages, its own among them.
  std::uint64_t fresh = 0;     ///< models that came in time
  std::uint64_t null = 0;      ///< headers alone: there was no new model, or none that might be contributed
  std::uint64_t missing = 0;   ///< had not come when the slice was averaged
  std::uint64_t previous = 0;  ///< … for which the node's last slice stood in (Missing::previous)
  std::uint64_t late = 0;      ///< came after that, and were dropped

  std::uint64_t bytes_sent = 0;  ///< of slices and means, without headers and envelopes
  /// From the publication of a model that was contributed to the application of what came of it, added up over
  /// `contributed` rounds.
  Duration to_apply{0};
  std::uint64_t contributed = 0;  ///< rounds of `applied` to which this node had contributed
  /// Own steps between two rounds of `applied`, added up: before the first one they are not counted.
  std::uint64_t steps_between = 0;

  /// Lines, one after the other, where members of the job change; 0: they do not.
  std::uint64_t entered = 0;

  /// Adds the counts of another line of the dimension.
  void add(const GridCounts& other) {
    for (const auto count : {&GridCounts::opened, &GridCounts::skipped, &GridCounts::completed, &GridCounts::forced,
                             &GridCounts::abandoned, &GridCounts::applied, &GridCounts::fresh, &GridCounts::null,
                             &GridCounts::missing, &GridCounts::previous, &GridCounts::late, &GridCounts::bytes_sent,
                             &GridCounts::contributed, &GridCounts::steps_between, &GridCounts::entered}) {
      this->*count += other.*count;
    }
    to_apply += other.to_apply;
  }
  /// Own steps from one applied round to the next, τ; 0 before the second.
  double steps_per_round() const {
    return applied < 2 ? 0 : static_cast<double>(steps_between) / static_cast<double>(applied - 1);
  }
  /// Mean time from a publication to its application, in seconds.
  double seconds_to_apply() const {
    return contributed == 0 ? 0 : seconds(to_apply) / static_cast<double>(contributed);
  }
};

}  // namespace stretto
