#pragma once

#include <memory>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/descriptor.h"
#include "stretto/membership/hosts/bulletin.h"

namespace stretto {

/// PMI-1: lines of words to the process manager of MPICH (hydra) and its descendants, on a descriptor that each rank
/// has from it (PMI_FD). What rank 0 puts there the others see behind a barrier of all, for which no call waits.
class PmiBulletin final : public Bulletin {
 public:
  /// The descriptor stays the caller's.
  PmiBulletin(int rank, int ranks, int descriptor);
  ~PmiBulletin() override { end(); }
  Result<void> publish(const std::string& words) override;
  Result<std::string> look_up() override;
  void end() override;

 private:
  /// The questions of a rank, each asked when the one before it has been answered; `put` is rank 0's, `get` the
  /// others'.
  enum class Step { begin, limits, space, put, barrier, get, done };
  /// Goes on before `last`. Errc::unavailable: some answer has not come before `until`, and may be awaited again.
  Result<void> go_on(Step last, TimePoint until);
  std::string question() const;
  Result<void> ask(const std::string& line);
  Result<std::string> answer(TimePoint until);
  Result<void> take(const std::string& line);
  Error broken(Errc errc, const std::string& how) const;

  std::shared_ptr<Descriptor> descriptor_;  // of its own: an MPI may close the caller's
  Step step_ = Step::begin;
  bool has_ended_ = false;
  bool asked_ = false;  // this step's question, whose answer has not come
  std::string received_;
  std::string space_;  // the name of this job's keys and values
  std::string words_;  // of rank 0
};

}  // namespace stretto
