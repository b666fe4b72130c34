#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// A rank's end of its job for as long as the members stay the same: the transport between them, its host, and one
/// engine with what drives it, which all that the rank does shares, at once or one thing after the other. A job is one
/// world. Engine and driver are made when they are first asked for. Application thread. In a process that the rank has
/// forked engine() and driver() throw UsageError: neither the host's memory nor the helper thread is there.
class World {
 public:
  /// All must outlive it. `driver`: of the engine, in place of an EngineDriver (a simulation); null: an EngineDriver.
  World(Transport& transport, const Clock& clock, Driver* driver = nullptr);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return transport_.rank(); }       ///< this rank's number, 0 … size() − 1
  int size() const { return transport_.size(); }       ///< ranks of the world
  Host host() const { return transport_.host(); }      ///< of this rank
  Transport& transport() const { return transport_; }  ///< between all ranks

  /// Collectives are made over it, in the same order on every rank.
  Engine& engine();
  /// The driver of the engine: `progress_by` is the first caller's. Throws UsageError where a later one wants another.
  Driver& driver(ProgressBy progress_by = ProgressBy::thread);
  const Clock& clock() const { return clock_; }  ///< of the engine and its driver
  /// Whether this is another process than the one that has made this: it has no part in the job.
  bool forked() const;
  /// Throws UsageError where forked().
  void require_own_process() const;

  /// Keeps to the engine's end what it uses as long, as of collectives that have failed: their rounds go on for ever.
  void keep(std::shared_ptr<void> used) { kept_.push_back(std::move(used)); }

 private:
  Transport& transport_;
  const Clock& clock_;
  const pid_t process_;
  Driver* const given_driver_;
  ProgressBy progress_by_ = ProgressBy::thread;
  // In the order in which they depend on one another: the driver, with its helper thread, ends first.
  std::optional<Engine> engine_;
  std::vector<std::shared_ptr<void>> kept_;
  std::optional<EngineDriver> driver_;
};

/// Throws UsageError where this is another process than `process`, that of a rank.
void require_process(pid_t process, int rank);

}  // namespace stretto
