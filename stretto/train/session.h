#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "stretto/base/function_ref.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/train/meeting.h"
#include "stretto/train/recipes.h"

namespace stretto {

struct SessionOptions {
  const RecipeInfo* recipe = nullptr;
  RecipeOptions recipe_options;
  ProgressBy progress_by = ProgressBy::thread;
  Duration silence = std::chrono::seconds(10);  ///< so long without news it is said who is waited for, again and again
  /// Called with a sentence such as "round 412 (full) waits for rank 3 (silent, last seen 11 s ago)".
  std::function<void(Round open, const std::string& line)> tell;
};

/// One rank's end of an algorithm: the engine and who drives it, the recipe, and what it shares with the other ranks.
/// One application thread. What goes wrong comes as Failure (Errc::lost_peer, Errc::aborted).
class Session {
 public:
  /// Registers everything with the engine and starts to drive it. All but the options outlive the session.
  Session(Transport& transport, const Clock& clock, Replica& replica, RoundListener& listener, SessionOptions options);

  /// Something that must be the same on every rank, and its name.
  struct Fingerprint {
    const char* what;
    std::string text;
  };
  /// Once, first. Throws UsageError, on every rank, where a fingerprint differs; then gives all ranks rank 0's weights.
  void begin(std::span<const Fingerprint> fingerprints);

  void begin_step(std::uint64_t samples, Duration waited) { recipe_->begin_step(samples, waited); }
  void set_samples(std::uint64_t samples) { recipe_->set_samples(samples); }
  /// After the backward pass. A gradient that is not finite stops the job; `where` says where in it.
  void end_backward(const std::string& where);
  void deposit(Duration computed) { recipe_->deposit(computed); }
  /// Returns how many rounds were applied.
  int exchange();
  /// No more batches here. Returns after the last round.
  int finish();
  /// The same for at most `limit`. Returns whether the last round is over.
  bool finish_within(Duration limit);
  /// Stops the job: `reason` reaches every rank.
  void abort(const std::string& reason);

  int rank() const { return engine_.rank(); }
  int ranks() const { return engine_.size(); }
  EngineDriver& driver() { return driver_; }
  const Clock& clock() const { return engine_.clock(); }
  Meeting& meeting() { return meeting_; }
  const Recipe& recipe() const { return *recipe_; }
  const PartialAllreduce& collective() const { return recipe_->collective(); }

 private:
  /// Calls until it does not time out, and says who is missing when it does.
  int insist(FunctionRef<Result<int>(TimePoint)> call);

  const SessionOptions options_;
  // In the order in which they depend on one another: the driver, with its helper thread, ends first.
  Engine engine_;
  Meeting meeting_;
  std::unique_ptr<Recipe> recipe_;
  EngineDriver driver_;
};

}  // namespace stretto
