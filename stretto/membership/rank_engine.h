#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// For which other ranks a rank may wait in a step, where ranks have made different numbers of steps.
struct StepWaits {
  /// One that has missed rounds goes on with the open one, and waits there for ranks that have made more steps.
  bool for_ranks_ahead = false;
  /// Ranks meet every few steps: one that has made more waits there for those that have made fewer.
  bool for_ranks_behind = false;
};

/// A part of a rank that hands over batches in steps of its own, such as an optimizer. A rank may have several.
/// Application thread.
class BatchSource {
 public:
  /// This rank has no more batches: from now on the other ranks do not wait here for any. Applies the rounds that are
  /// complete, and waits for nothing. Called again and again while the rank waits elsewhere.
  virtual void drain() = 0;
  /// Empty where every round is one of all ranks, so that ranks which have made as many steps are in the same round.
  /// Otherwise the name of the algorithm under which a rank may be ahead of another.
  virtual std::string parts_ranks() const = 0;
  /// The name of its algorithm, and for whom a rank waits under it.
  virtual std::pair<std::string, StepWaits> waits() const = 0;

 protected:
  ~BatchSource() = default;  ///< its owner's
};

/// The engine of one rank and what drives it: one over the rank's transport, shared by all that the rank does with it,
/// at once or one after the other. Made when it is first asked for. Application thread. In a process that the rank has
/// forked engine() and driver() throw UsageError: neither the job's memory nor the helper thread is there.
class RankEngine {
 public:
  /// All must outlive it. `driver`: of this engine, in place of an EngineDriver (a simulation); null: an EngineDriver.
  RankEngine(Transport& transport, const Clock& clock, Driver* driver = nullptr);
  RankEngine(const RankEngine&) = delete;
  RankEngine& operator=(const RankEngine&) = delete;

  /// Collectives are made over it, in the same order on every rank.
  Engine& engine();
  /// What drives it: `progress_by` is the first caller's. Throws UsageError where a later one wants another.
  Driver& driver(ProgressBy progress_by = ProgressBy::thread);
  const Clock& clock() const { return clock_; }  ///< of the engine and its driver
  /// Whether this is another process than the one that has made this: it has no part in the job.
  bool forked() const;
  /// Throws UsageError where forked().
  void require_own_process() const;

  /// The batch sources whose rounds are not over, in the order in which they began.
  const std::vector<BatchSource*>& batch_sources() const { return sources_; }
  /// Enters a batch source, which must outlive its remove().
  void add(BatchSource& source) {
    sources_.push_back(&source);
    ++sources_ever_;
  }
  /// How many have been added so far.
  int num_batch_sources_ever() const { return sources_ever_; }
  /// Takes out a batch source whose rounds are over.
  void remove(BatchSource& source) { std::erase(sources_, &source); }

  /// Keeps to the engine's end what it may still use of collectives that have failed: their rounds go on for ever.
  void keep(std::shared_ptr<void> failed) { failed_.push_back(std::move(failed)); }

 private:
  Transport& transport_;
  const Clock& clock_;
  const pid_t process_;
  Driver* const given_driver_;
  ProgressBy progress_by_ = ProgressBy::thread;
  std::vector<BatchSource*> sources_;
  int sources_ever_ = 0;
  // In the order in which they depend on one another: the driver, with its helper thread, ends first.
  std::optional<Engine> engine_;
  std::vector<std::shared_ptr<void>> failed_;
  std::optional<EngineDriver> driver_;
};

}  // namespace stretto
