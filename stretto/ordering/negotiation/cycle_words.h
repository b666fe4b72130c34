#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

/// A member's flags in a sync of its process set; after the allreduce by bitwise AND, the flags of all members.
struct CycleFlags {
  bool unsent = false;        ///< a tensor is neither cached nor asked for. Of all: of some member, as the next five
  bool waiting = false;       ///< a request has no answer yet
  bool untold = false;        ///< the member has ended the step, and the first member does not know
  bool overdue = false;       ///< a tensor waits for so long that a line should say so
  bool expired = false;       ///< a tensor waits for so long that the job should fail
  bool some_drained = false;  ///< the member has no further steps
  bool idle = false;          ///< the step has ended, nothing is pending. Of all: of every member, as the next two
  bool stuck = false;    ///< the member submits nothing until something pending here is reduced, or has ended the step
  bool drained = false;  ///< idle, and no further steps
};

/// The words of a sync: flags, a fingerprint, and three bits for each position of the cache. Words of several members
/// are combined by bitwise AND, so what some member says is sent inverted.
class CycleWords {
 public:
  /// Of a member that says nothing yet. `positions`: of the cache.
  explicit CycleWords(std::size_t positions);
  /// Errc::bad_input where so many words are not those of a cache with so many positions.
  static Result<CycleWords> of(std::vector<std::uint64_t> words, std::size_t positions);

  void set(const CycleFlags& flags);
  CycleFlags flags() const;

  /// Of the plan that the member has made for the step. Without one: it agrees with every other.
  void set_fingerprint(std::uint64_t fingerprint);
  /// Whether all members that have a fingerprint have the same.
  bool fingerprints_equal() const { return words_[1] == ~words_[2]; }
  /// A number that is equal in two syncs where the members' fingerprints are.
  std::uint64_t fingerprints() const { return words_[1] ^ (words_[2] << 1 | words_[2] >> 63); }

  void set_hit(std::size_t position, bool on);  ///< submitted as it is cached, or not to be submitted
  void set_pending(std::size_t position);       ///< submitted
  void set_invalid(std::size_t position);       ///< submitted with another description
  bool hit(std::size_t position) const { return bit(0, position); }       ///< of every member
  bool pending(std::size_t position) const { return !bit(1, position); }  ///< of some member
  bool invalid(std::size_t position) const { return !bit(2, position); }  ///< of some member
  bool some_invalid() const;                                              ///< at some position

  const std::vector<std::uint64_t>& words() const { return words_; }  ///< to be sent

 private:
  static constexpr std::size_t kFixed = 3;  // flags, fingerprint, its inverse
  static std::size_t size(std::size_t positions) { return kFixed + 3 * ((positions + 63) / 64); }
  std::size_t per_kind() const { return (words_.size() - kFixed) / 3; }
  bool bit(std::size_t kind, std::size_t position) const {
    return (words_[kFixed + kind * per_kind() + position / 64] >> (position % 64) & 1) != 0;
  }
  std::uint64_t& word(std::size_t kind, std::size_t position) {
    return words_[kFixed + kind * per_kind() + position / 64];
  }

  std::vector<std::uint64_t> words_;
};

}  // namespace stretto
