#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/dispenser/pool.h"
#include "stretto/membership/views/pool_change.h"
#include "stretto/membership/views/register.h"

namespace stretto {

/// The pool of batches of a job whose members change, kept beside the register, so that another master hands out what
/// the one before had not, and says again what that had. Batches are noted there before anybody is told of them; where
/// masters share the register many are noted at once, and for each member that asks, so that members go on while it
/// does not answer. The master's thread.
///
/// Of masters that share a register members go to one of a later term alone, and each begins with a note of its term:
/// one of an earlier term can write nothing before it has read that, and notes nothing after it.
class KeptPool {
 public:
  /// As the register has it. `reg` outlives it. `tell` is told, once each time it begins, that what is handed out
  /// cannot be written.
  KeptPool(Register& reg, std::function<void(const std::string& line)> tell);

  /// The batch after the first `taken` that `member` was ever handed, of `batches` in all by `plan`, where the member
  /// has handed over `computed`; nothing: there is none now. `position`: where the pool begins, for the first that
  /// asks. Errc::bad_input: the job's batches are others; Errc::unavailable: it is to be asked again later.
  Result<std::optional<std::uint64_t>> hand_out(MemberNumber member, std::uint64_t taken, std::uint64_t computed,
                                                std::uint64_t batches, std::uint64_t plan,
                                                const std::vector<std::uint64_t>& position, TimePoint now = {});
  /// The member has come, and was ever told of so many batches: no other master tells it of more.
  void has_come(MemberNumber member, std::uint64_t taken);
  /// The pool; null: nobody has asked for a batch.
  Pool* pool() { return pool_ ? &*pool_ : nullptr; }
  /// A pool, or none, as words that stand beside a view.
  std::string words_of(const Pool* pool) const;
  /// The register has these words now.
  void commit(Pool pool);
  /// The register has what another master has written: as that has it.
  void restore();

 private:
  void restore(const std::string& line);
  /// Adds a line to the register. Refused: it is not there; unknown: it may be.
  Written note(const std::string& line, TimePoint now);
  bool note_term(TimePoint now);
  /// Has more batches in the hand of a member, and of others that have few. False: later.
  bool reserve(MemberNumber member, std::uint64_t computed, TimePoint now);
  /// Takes batches back of members that were not told of them. False: later.
  bool take_back(TimePoint now);

  Register& register_;
  const std::function<void(const std::string& line)> tell_;
  std::optional<Pool> pool_;
  std::uint64_t batches_ = 0, plan_ = 0;         // of it
  bool is_written_ = true;                       // each batch that was handed out since the last view
  std::map<MemberNumber, std::uint64_t> told_;   // batches; of members that no other master has told of more
  std::uint64_t ahead_ = 8, each_ = 1;           // batches that are noted for a member at once: at most, and last
  TimePoint reserved_at_ = {}, try_again_ = {};  // to write, after it has failed
  bool is_old_ = false;                          // the register is to be read first
  bool is_here_ = false;                         // this master has noted its term
  std::uint64_t term_ = 0;                       // the latest that is noted
};

}  // namespace stretto
