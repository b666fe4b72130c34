#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// The delay and slow-down added to a step of one rank.
struct ImbalanceDraw {
  Duration delay{0};  ///< after its computation
  double factor = 1;  ///< its computation takes this many times as long
  friend bool operator==(const ImbalanceDraw&, const ImbalanceDraw&) = default;
};

/// Each step `count` ranks, drawn for it, are late by `delay`.
struct RandomRanks {
  int count = 1;
  Duration delay{0};
};

/// The ranks have values equally spaced from `low` to `high`, which rotate by one rank each step.
struct Rotation {
  Duration low{0}, high{0};
};

/// Rank r is always late by the r-th of values equally spaced from `low` to `high`.
struct LinearSkew {
  Duration low{0}, high{0};
};

/// One rank is always slow.
struct PersistentRank {
  int rank = 0;
  Duration delay{0};
  double factor = 1;
};

/// Log-normal with the given mean; cv = standard deviation / mean.
struct LogNormalDelay {
  Duration mean{0};
  double cv = 0;
};

/// A measured distribution: exp(μ + σz) seconds with a standard normal z, cut: a draw beyond an end counts as that end.
struct MeasuredDelay {
  std::string name;
  double mu = 0, sigma = 0;
  double low = 0, high = 0;  ///< seconds
  double scale = 1;          ///< multiplies the delay
};

/// Delays read from a file, one row a step; starts again when the file is at its end.
struct RecordedDelays {
  std::string path;
  std::shared_ptr<const std::vector<Duration>> delays;  ///< ranks × steps; shared by all copies, never written
  double scale = 1;
};

/// One way in which ranks are slow; an Imbalance is a sum of them.
using ImbalanceSource =
    std::variant<RandomRanks, Rotation, LinearSkew, PersistentRank, LogNormalDelay, MeasuredDelay, RecordedDelays>;

/// The delay and factor that `source` adds to a rank's own step `step`. `bits` are random, the same for all ranks.
ImbalanceDraw draw(const ImbalanceSource& source, std::uint64_t bits, int ranks, int rank, std::uint64_t step);

/// With all delays multiplied by `scale`; factors stay.
ImbalanceSource scaled(const ImbalanceSource& source, double scale);

/// As Imbalance::parse() reads it.
std::string to_string(const ImbalanceSource& source);

}  // namespace stretto
