#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/words.h"

namespace stretto {

/// Some ranks of a job, which reduce tensors among themselves, as one of the job's ranks sees them. Immutable.
class ProcessSet {
 public:
  /// Number `number` of the job's sets. `members`: different ranks of the job, ascending. `rank`: this one.
  ProcessSet(int number, std::vector<int> members, int rank) : number_(number), members_(std::move(members)) {
    const auto at = std::ranges::find(members_, rank);
    if (at != members_.end()) me_ = static_cast<int>(at - members_.begin());
  }

  int number() const { return number_; }                                                ///< as TensorDescription::set
  int size() const { return static_cast<int>(members_.size()); }                        ///< members
  const std::vector<int>& members() const { return members_; }                          ///< ranks of the job
  int rank_of(int member) const { return members_[static_cast<std::size_t>(member)]; }  ///< of the job
  bool has_this_rank() const { return me_ >= 0; }                                       ///< whether it is a member
  int me() const { return me_; }                                                        ///< this rank's place, or −1

  /// The place of a rank of the job, or −1.
  int member(int rank) const {
    const auto at = std::ranges::find(members_, rank);
    return at == members_.end() ? -1 : static_cast<int>(at - members_.begin());
  }
  /// "set 1 of ranks 0, 2, 3".
  std::string to_text() const {
    std::string out = text("set ", number_, " of ranks ");
    for (const int rank : members_) out += text(rank == members_.front() ? "" : ", ", rank);
    return out;
  }

 private:
  int number_;
  std::vector<int> members_;
  int me_ = -1;
};

}  // namespace stretto
