#pragma once

#include <cstdint>

#include "stretto/base/clock.h"

namespace stretto {

/// The part in a mean of a node whose contribution has not come.
enum class Missing : std::uint8_t {
  received,  ///< nothing: it is the mean of what came
  /// The last slice that came of that node, as in the paper, whose update alone may go with it: under carry the sum of
  /// all models would move by what nodes have brought before and do not move by now.
  previous,
};

/// How a node's model m moves by the means g of a round, α being the elastic constant.
enum class ElasticUpdate : std::uint8_t {
  /// m + α(g − X), where X is what the node has contributed, on slices whose mean has that: steps that it has made
  /// since stay whole, and the sum of all models moves by steps alone
  carry,
  paper,  ///< (1 − α)m + αg
};

/// The form in which slices of models, and their means, are sent.
enum class Compression : std::uint8_t {
  none,
  zeros,  ///< without their zeros, where enough are: no bit is lost
  int8,   ///< by a byte for each float32: its rounded difference from what the other side knows by then
};

/// How the rounds of a line go, the same on all of its nodes (docs/protocol.md, Lines of a grid). Shares are of the p
/// nodes of a line, and needed() says of how many.
struct LineOptions {
  double reduce = 1;      ///< θr: contributions with which a slice is averaged
  double complete = 1;    ///< θc: means with which a round is complete
  double advance = 1;     ///< θa: nodes that have applied a round before the next one starts
  Duration patience{0};   ///< for the others, once there is so much; 0: as in the paper
  bool adaptive = false;  ///< patience is median + 3·MAD of how long the others took before
  Missing missing = Missing::received;
  ElasticUpdate update = ElasticUpdate::carry;
  Compression compression = Compression::none;
  int rounds_in_flight = 1;  ///< R; with carry 1, since a node contributes nothing more before it has applied a round

  /// Throws UsageError unless shares are above 0 and at most 1, and R and the others fit each other.
  void require() const;
};

/// max(1, ⌈share · members⌉).
int needed(double share, int members);

}  // namespace stretto
