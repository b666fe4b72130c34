#pragma once

#include <map>
#include <optional>

#include "stretto/membership/views/view.h"

namespace stretto {

/// The numbers and places by which processes come to a job whose members change: a number is given once, a place again
/// when the process that had it has ended. Pure.
class GivenPlaces {
 public:
  struct Given {
    MemberNumber number = 0;
    int place = 0;
  };
  /// `places`: processes at a time, at most. `given`: so many have the numbers from 0 on, and the places of the same
  /// numbers. Requires: given ≤ places.
  GivenPlaces(int places, int given);

  int places() const { return places_; }
  /// The next number, with the place that is wished for, or the lowest where that is taken. Nothing: all are taken.
  std::optional<Given> give(std::optional<int> wish);
  /// A process comes by a number from elsewhere, which is given to no other from now on; nor is the place that it has,
  /// as long as it lives.
  void has_come(MemberNumber number, std::optional<int> place = {});
  /// The process of a number has ended, or will never be.
  void ended(MemberNumber number) { of_.erase(number); }
  /// The places that are taken, by the numbers of the processes that have them.
  const std::map<MemberNumber, int>& taken() const { return of_; }

 private:
  bool is_free(int place) const;

  const int places_;
  MemberNumber next_;
  std::map<MemberNumber, int> of_;  // the places that are taken
};

}  // namespace stretto
