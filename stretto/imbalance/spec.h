#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/imbalance/source.h"

namespace stretto {

/// Which ranks are slow, when, and by how much: injected beside the natural differences of the work. Immutable; cheap
/// to copy.
///
/// Written as a sum of sources, joined by '+':
///   none                              no rank is slow
///   random:ranks=1,delay=200ms        each step as many ranks as said, drawn for the step
///   rotate:50ms..400ms                equally spaced over the ranks, rotating by one each step
///   linear:1ms..32ms                  equally spaced over the ranks
///   persistent:rank=3,delay=40ms      one rank, always; factor=3: it computes three times as long
///   lognormal:mean=20ms,cv=0.5        each rank and step its own draw; cv = standard deviation / mean
///   trace:FILE                        rows step,rank,seconds; repeated when it is at its end (path without '+')
///   ucf101, wmt16, cloud, habitat     measured distributions; scale=0.1 multiplies them
class Imbalance {
 public:
  using Draw = ImbalanceDraw;

  /// None.
  Imbalance() = default;

  /// Reads the above for a job of `ranks`, the trace's file included. Throws UsageError that names the value, the
  /// values expected and an example.
  static Imbalance parse(const std::string& written, int ranks);

  /// The delay and factor of a rank's own step `step`: delays of all sources added, factors multiplied. A pure
  /// function, alike on every rank. Thread-safe. Requires: 0 ≤ rank < ranks.
  Draw draw(std::uint64_t seed, int rank, std::uint64_t step) const;

  /// The same with all delays multiplied; factors stay. Requires: scale > 0.
  Imbalance scaled(double scale) const;

  /// Anything but none.
  bool injected() const { return !sources_.empty(); }

  /// The text that parse() reads.
  std::string to_string() const;

 private:
  int ranks_ = 1;
  std::vector<ImbalanceSource> sources_;
};

}  // namespace stretto
