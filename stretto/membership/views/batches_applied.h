#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "stretto/membership/views/view.h"

namespace stretto {

/// Batches of each member, all its worlds together, that are part of the rounds a member holds. In one piece of memory,
/// since each member says them of all at each change.
class BatchesApplied {
 public:
  using Entry = std::pair<MemberNumber, std::uint64_t>;

  BatchesApplied() = default;
  BatchesApplied(std::initializer_list<Entry> entries) : entries_(entries) { std::ranges::sort(entries_); }

  /// The batches of a member, to be counted up; 0 at first.
  std::uint64_t& operator[](MemberNumber member) {
    const auto at = std::ranges::lower_bound(entries_, member, {}, &Entry::first);
    if (at != entries_.end() && at->first == member) return at->second;
    return entries_.insert(at, {member, 0})->second;
  }
  /// The batches of a member; 0 where there are none.
  std::uint64_t of(MemberNumber member) const {
    const auto at = std::ranges::lower_bound(entries_, member, {}, &Entry::first);
    return at != entries_.end() && at->first == member ? at->second : 0;
  }

  // By member, ascending.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  void clear() { entries_.clear(); }
  friend bool operator==(const BatchesApplied&, const BatchesApplied&) = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace stretto
