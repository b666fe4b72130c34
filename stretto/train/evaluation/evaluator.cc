#include "stretto/train/evaluation/evaluator.h"

#include <stdexcept>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);  // at what another thread has to say anyway

}  // namespace

bool CopyQueue::put(ModelCopy& copy, Duration limit) {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + limit;
  const MutexLock lock(mutex_);
  while (waiting_ && !closed_) {
    const Duration left = deadline - clock.now();
    if (left <= Duration(0)) return false;
    changed_.wait_for(mutex_, left);
  }
  if (!closed_) waiting_ = std::move(copy);
  copy = {};
  changed_.notify_all();
  return true;
}

std::optional<ModelCopy> CopyQueue::take() {
  const MutexLock lock(mutex_);
  while (!waiting_ && !closed_) changed_.wait_for(mutex_, kLookEvery);
  changed_.notify_all();
  return std::exchange(waiting_, std::nullopt);
}

void CopyQueue::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void CopyQueue::abandon() {
  const MutexLock lock(mutex_);
  closed_ = true;
  waiting_.reset();
  changed_.notify_all();
}

Evaluator::Evaluator(std::function<Score()> make_score, bool keep_best)
    : make_score_(std::move(make_score)), keep_best_(keep_best) {}

Evaluator::~Evaluator() {
  queue_.abandon();
  end();
}

bool Evaluator::put(ModelCopy& copy, Duration limit) {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return queue_.put(copy, limit);
}

void Evaluator::require_whole() {
  const MutexLock lock(mutex_);
  if (!failure_.empty()) throw std::runtime_error(failure_);
}

Evaluator::Results Evaluator::finish() {
  queue_.close();
  end();
  require_whole();
  return std::move(results_);
}

void Evaluator::end() {
  if (thread_.joinable()) thread_.join();
}

void Evaluator::run() {
  try {
    const Score score = make_score_();
    while (auto copy = queue_.take()) {
      at_ = copy->batches;
      evaluate(score, *std::move(copy));
    }
  } catch (const std::exception& error) {
    const std::string what = error.what();  // of LibTorch with a stack below its first line
    const MutexLock lock(mutex_);
    failure_ = text("evaluation after ", at_, " batches: ", what.substr(0, what.find('\n')));
  }
  queue_.abandon();
}

void Evaluator::evaluate(const Score& score, ModelCopy copy) {
  Scores scores = score(copy.weights);
  results_.points.push_back({.seconds = copy.seconds,
                             .batches = copy.batches,
                             .average = copy.average,
                             .test = std::move(scores.test),
                             .training = std::move(scores.training)});
  const double loss = results_.points.back().training.loss;
  if (!keep_best_ || !(loss < results_.lowest)) return;
  results_.lowest = loss;
  results_.best = std::move(copy);
}

}  // namespace stretto
