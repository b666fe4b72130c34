#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stretto/train/evaluation/copy_queue.h"
#include "stretto/train/evaluation/score.h"

namespace stretto {

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
