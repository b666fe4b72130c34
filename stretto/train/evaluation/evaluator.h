#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
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

/// How good a model is on one set of samples.
struct TaskScore {
  double loss = 0;                 ///< mean over all samples
  std::optional<double> accuracy;  ///< share classified correctly; none for regression
  std::optional<double> top5;  ///< share with the class among the five guessed first; none for five classes or fewer
};

/// A model evaluated while the run goes on.
struct EvaluationPoint {
  double seconds = 0;         ///< since the first step
  std::uint64_t batches = 0;  ///< applied before it
  bool average = true;        ///< the weights of all ranks; else rank 0's own
  TaskScore test, training;
};

/// Scores on test and on training data.
struct Scores {
  TaskScore test, training;
};
/// Evaluates weights as a ModelCopy holds them.
using Score = std::function<Scores(const std::vector<std::vector<std::byte>>& weights)>;

/// A thread that evaluates copies of a model, one after the other, on a model of its own, while the training goes on.
/// No result depends on how long it takes. One other thread calls everything here.
class Evaluator {
 public:
  /// `make_score` is called once, in the thread, which starts with the first copy: so what it makes is that thread's.
  /// `keep_best`: also keeps the copy of lowest training loss.
  Evaluator(std::function<Score()> make_score, bool keep_best);
  /// Waits for the copy under way; one that waits is dropped.
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// As CopyQueue::put(). After a failure copies are dropped.
  [[nodiscard]] bool put(ModelCopy& copy, Duration limit);
  /// Throws std::runtime_error, which says for which copy and why, once an evaluation has failed.
  void require_whole();

  struct Results {
    std::vector<EvaluationPoint> points;  ///< one a copy, in order
    std::optional<ModelCopy> best;        ///< the first of those of lowest training loss, where it is kept
    double lowest = std::numeric_limits<double>::infinity();  ///< its training loss
  };
  /// Waits until all copies are evaluated. Once. Throws as require_whole().
  Results finish();

 private:
  void run();
  void evaluate(const Score& score, ModelCopy copy);
  void end();

  const std::function<Score()> make_score_;
  const bool keep_best_;
  CopyQueue queue_;
  std::thread thread_;

  // The evaluating thread's until it has ended.
  Results results_;
  std::uint64_t at_ = 0;  // batches of the copy under way

  Mutex mutex_;
  std::string failure_ GUARDED_BY(mutex_);
};

}  // namespace stretto
