#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stretto/base/mutex.h"

namespace stretto {

/// A model as it was at one moment of a run.
struct ModelCopy {
  double seconds = 0;                           ///< since the first step
  std::uint64_t batches = 0;                    ///< applied before it
  bool average = true;                          ///< the weights of all ranks; else rank 0's own
  std::vector<std::vector<std::byte>> weights;  ///< as Replica::weights() lists them
};

/// Copies of models on their way from the thread that trains to the one that evaluates them: in order, and none is left
/// out. One copy waits here at most. With the one that the second thread is at, and the one that the first thread waits
/// to hand over, there are three however slow evaluations are. Thread-safe; one thread puts, one takes.
class CopyQueue {
 public:
  /// Hands `copy` over once no other one waits, but waits no longer than `limit`. Returns whether it has; `copy` stays
  /// as it is if not. A queue that is closed takes copies, and drops them.
  [[nodiscard]] bool put(ModelCopy& copy, Duration limit) EXCLUDES(mutex_);
  /// Waits for a copy. None: the queue is closed, and nothing is left.
  std::optional<ModelCopy> take() EXCLUDES(mutex_);
  /// No copy comes any more; one that waits can still be taken. Any thread.
  void close() EXCLUDES(mutex_);
  /// The same, and drops a copy that waits.
  void abandon() EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<ModelCopy> waiting_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace stretto
