#pragma once

#include <atomic>
#include <cstdint>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"

namespace stretto {

/// One rank's view of who speaks for its host: the first of the ranks that are there, unless that one stands still:
/// then the next, and so on, each a second later. All ranks of the host look at one word in its memory
/// (HostNews::beat()): its last bits are the place of the rank that speaks, and it changes as long as that rank runs.
/// Pure: neither thread nor clock.
class SpeakersTurn {
 public:
  /// `place`: of this rank on its host.
  SpeakersTurn(int place, TimePoint now) : place_(place), seen_at_(now) {}

  /// Whether this rank speaks now; if so the word changes. Asked at least every fraction of a second. `is_gone`:
  /// whether the rank at a place has left or ended.
  bool is_mine(std::atomic<std::uint64_t>& beat, FunctionRef<bool(int place)> is_gone, TimePoint now);

  /// For how long this rank has seen `beat`, the word as it is now; −1: it has not yet. All that later answers depend
  /// on.
  Duration unchanged(std::uint64_t beat, TimePoint now) const { return beat == seen_ ? now - seen_at_ : Duration(-1); }

  /// The place of the rank that speaks; −1: none has yet.
  static int speaks(std::uint64_t beat) { return beat == 0 ? -1 : static_cast<int>(beat & kPlaces); }

 private:
  static constexpr std::uint64_t kPlaces = 1023;  // the last bits

  int place_;
  std::uint64_t seen_ = 0;
  TimePoint seen_at_;
};

}  // namespace stretto
