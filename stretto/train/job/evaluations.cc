#include "stretto/train/job/evaluations.h"

#include <cstring>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr Duration kLookAtJobEvery = std::chrono::milliseconds(100);  // whether the job goes on

using Weights = std::vector<std::vector<std::byte>>;

Weights copy_of(Replica& replica) {
  Weights copy;
  for (const auto& piece : replica.weights()) copy.emplace_back(piece.begin(), piece.end());
  return copy;
}

void write_to(Replica& replica, const Weights& from) {
  const auto weights = replica.weights();
  STRETTO_CHECK(weights.size() == from.size(), weights.size(), " and ", from.size(), " pieces");
  for (std::size_t i = 0; i < weights.size(); ++i) std::memcpy(weights[i].data(), from[i].data(), weights[i].size());
}

// Shared, since a function is copied.
Score score_on(std::shared_ptr<RankTask> task) {
  return [task = std::move(task)](const Weights& weights) -> Scores {
    write_to(task->replica(), weights);
    TaskScore test = task->score_test();
    return {std::move(test), task->score_training()};
  };
}

}  // namespace

Evaluations::Evaluations(Context context, std::uint64_t batches)
    : context_(std::move(context)),
      of_average_(context_.plan.options.evaluate == "average"),
      evaluator_([make = context_.second_task] { return score_on(make()); },
                 context_.plan.options.final_model == "best"),
      evaluated_at_(batches) {}

bool Evaluations::due(std::uint64_t batches) const {
  const std::uint64_t every = context_.plan.options.evaluate_every;
  return every != 0 && batches / every != evaluated_at_ / every;
}

void Evaluations::after_average(std::uint64_t batches, double seconds) {
  if (of_average_ && due(batches)) hand_over(batches, seconds, true);
}

void Evaluations::after_step(std::uint64_t batches, double seconds) {
  evaluator_.require_whole();
  if (copies_replica(batches)) hand_over(batches, seconds, false);
}

void Evaluations::hand_over(std::uint64_t batches, double seconds, bool average) {
  evaluated_at_ = batches;
  ModelCopy copy{
      .seconds = seconds, .batches = batches, .average = average, .weights = copy_of(context_.task.replica())};
  while (!evaluator_.put(copy, kLookAtJobEvery)) context_.require_going_on();
}

void Evaluations::before_last_rounds() {
  if (context_.plan.options.final_model == "rank0") own_ = copy_of(context_.task.replica());
}

void Evaluations::finish(std::uint64_t batches, RankReport& report) {
  Evaluator::Results results = evaluator_.finish();
  report.evaluations = std::move(results.points);
  report.final_batches = batches;
  if (own_) {
    write_to(context_.task.replica(), *own_);
  } else if (results.best && !(context_.task.score_training().loss <= results.lowest)) {
    write_to(context_.task.replica(), results.best->weights);
    report.final_batches = results.best->batches;
  }
}

}  // namespace stretto
