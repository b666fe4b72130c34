#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "stretto/dispenser/pool.h"
#include "stretto/membership/views/pool_change.h"
#include "stretto/membership/views/register.h"

namespace stretto {

/// The pool of batches of a job whose members change, kept beside the register, so that a master that is started again
/// hands out what the one before had not, and says again what that had. The master's thread.
class KeptPool {
 public:
  /// As the register has it. `reg` outlives it. `tell` is told, once each time it begins, that what is handed out
  /// cannot be written.
  KeptPool(Register& reg, std::function<void(const std::string& line)> tell);

  /// The batch after the first `taken` that `member` was ever handed, of `batches` in all by `plan`, where the member
  /// has handed over `computed`; nothing: there is none now. `position`: where the pool begins, for the first that
  /// asks. Errc::bad_input: the job's batches are others.
  Result<std::optional<std::uint64_t>> hand_out(MemberNumber member, std::uint64_t taken, std::uint64_t computed,
                                                std::uint64_t batches, std::uint64_t plan,
                                                const std::vector<std::uint64_t>& position);
  /// The pool; null: nobody has asked for a batch.
  Pool* pool() { return pool_ ? &*pool_ : nullptr; }
  /// A pool as words that stand beside a view.
  std::string words_of(const Pool& pool) const;
  /// The register has these words now.
  void commit(Pool pool);
  /// The register has what another master has written: as that has it.
  void restore();

 private:
  void restore(const std::string& line);

  Register& register_;
  const std::function<void(const std::string& line)> tell_;
  std::optional<Pool> pool_;
  std::uint64_t batches_ = 0, plan_ = 0;  // of it
  bool is_written_ = true;                // each batch that was handed out since the last view
};

}  // namespace stretto
