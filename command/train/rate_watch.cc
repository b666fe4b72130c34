#include "command/train/rate_watch.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "command/cli/table.h"
#include "stretto/base/clock.h"

namespace stretto {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DriftCause, kind, rank, ratio, skew_ratio, apart, predicted_round, measured_round)

namespace command {

namespace {

constexpr double kWindow = 1;  // seconds at least that a rate is measured over

std::string time_text(double seconds) {
  return significant(seconds) + " s";
}

std::string cause_text(const DriftCause& cause) {
  switch (cause.kind) {
    case DriftCause::Kind::rank:
      return fmt::format("rank {} computes {} times as long", cause.rank, significant(cause.ratio));
    case DriftCause::Kind::rounds:
      return fmt::format("ranks compute as predicted, and a round costs {} ms in place of {} ms",
                         significant(1e3 * cause.measured_round), significant(1e3 * cause.predicted_round));
    case DriftCause::Kind::compute: break;
  }
  return cause.apart ? fmt::format("the ranks of a step are {} times as far apart", significant(cause.skew_ratio))
                     : fmt::format("the ranks compute {} times as long", significant(cause.ratio));
}

}  // namespace

std::string Drift::to_text(double predicted) const {
  return fmt::format("batch {}, {}: {} batches/s, {} of the {} predicted: {}", batch, time_text(second),
                     significant(rate), significant(rate / predicted), significant(predicted), cause_text(*cause));
}

std::string RatePrediction::to_text() const {
  std::string text = fmt::format("predicted from the first {} steps: {} batches/s; measured after them: {}, {} of it\n",
                                 steps, significant(predicted), significant(measured), significant(ratio()));
  if (drifts.empty()) return text + "never off by more than 10 % for long\n";
  for (const Drift& drift : drifts) {
    text += fmt::format("from {} {}: {} batches/s: {}\n", time_text(drift.second),
                        drift.until ? "to " + time_text(*drift.until) : std::string("to the end"),
                        significant(drift.rate), cause_text(*drift.cause));
  }
  return text;
}

nlohmann::ordered_json to_json(const RatePrediction& prediction) {
  nlohmann::ordered_json drifts = nlohmann::ordered_json::array();
  for (const Drift& drift : prediction.drifts) {
    const DriftCause& cause = *drift.cause;
    nlohmann::ordered_json one = {
        {"batch", drift.batch},
        {"second", drift.second},
        {"until", nullptr},
        {"measured", drift.rate},
        {"ratio", drift.rate / prediction.predicted},
        {"cause", cause.name()},
        {"rank", nullptr},
        {"times", cause.ratio},
        {"skew_times", cause.skew_ratio},
        {"round_s", {{"predicted", cause.predicted_round}, {"measured", cause.measured_round}}},
        {"says", cause_text(cause)}};
    if (drift.until) one["until"] = *drift.until;
    if (cause.rank >= 0) one["rank"] = cause.rank;
    drifts.push_back(std::move(one));
  }
  return {{"first_steps", prediction.steps}, {"round_s", prediction.round_cost}, {"predicted", prediction.predicted},
          {"measured", prediction.measured}, {"ratio", prediction.ratio()},      {"drifts", std::move(drifts)}};
}

RateWatch::RateWatch(int ranks, std::uint64_t steps, Simulate simulate)
    : ranks_(ranks),
      first_steps_(steps),
      simulate_(std::move(simulate)),
      next_(static_cast<std::size_t>(ranks)),
      window_(ranks) {}

void RateWatch::read(const RecentSteps& steps) {
  std::vector<float> read;
  for (int rank = 0; rank < ranks_; ++rank) {
    auto& next = next_[static_cast<std::size_t>(rank)];
    read.clear();
    next = steps.read(rank, next, read);
    window_.add(rank, read);
  }
}

std::vector<std::string> RateWatch::take(const RunProgress& progress) {
  if (gave_up_) return {};
  const Mark now{progress.batches, progress.seconds};
  last_ = now;
  read(*progress.steps);
  if (task_) {
    if (const auto answer = task_->poll()) take_answer(*answer);
  }
  const bool over = progress.total > 0 && progress.batches >= progress.total;
  if (!task_ && !gave_up_ && !over) end_window(now);  // while a task works the window grows
  return std::exchange(lines_, {});
}

void RateWatch::begin_window(const Mark& now) {
  window_.clear();
  since_ = now;
}

void RateWatch::end_window(const Mark& now) {
  if (!since_) {
    if (window_.fewest() >= left_out(first_steps_)) begin_window(now);
    return;
  }
  if (window_.fewest() == 0 || window_.total() < first_steps_ * static_cast<std::uint64_t>(ranks_)) return;
  if (now.seconds - since_->seconds < kWindow || now.batches == since_->batches) return;
  const double rate = static_cast<double>(now.batches - since_->batches) / (now.seconds - since_->seconds);
  if (detector_) {
    judge(rate, now);
  } else {
    first_steps_end_ = now;
    ask_for_prediction(rate);
  }
  begin_window(now);
}

void RateWatch::ask_for_prediction(double rate) {
  prediction_.steps = window_.total() / static_cast<std::uint64_t>(ranks_);
  first_ = RunInputs{window_.times(kSimulated)};
  task_.emplace([this, rate] {
    const RunInputs inputs = inputs_of(first_->computed, rate, simulate_);
    return nlohmann::json{inputs.round_cost, simulate_(inputs.occupied())}.dump();
  });
}

void RateWatch::judge(double rate, const Mark& now) {
  const bool drifted = detector_->drifting();
  switch (detector_->take(rate)) {
    case DriftDetector::Turn::none: return;
    case DriftDetector::Turn::left: {
      if (drifted) prediction_.drifts.back().until = now.seconds;  // and has left anew
      prediction_.drifts.push_back({.batch = now.batches, .second = now.seconds, .rate = rate});
      task_.emplace([this, rate] {
        const StepTimes computed = window_.times(kSimulated);
        return nlohmann::json(cause_of_drift(*first_, computed, predicted(), rate, simulate_)).dump();
      });
      return;
    }
    case DriftDetector::Turn::back:
      prediction_.drifts.back().until = now.seconds;
      lines_.push_back(fmt::format("batch {}, {}: as predicted again, {} batches/s", now.batches,
                                   time_text(now.seconds), significant(rate)));
  }
}

void RateWatch::take_answer(const Result<std::string>& answer) {
  task_.reset();
  if (!answer) {
    gave_up_ = true;
    lines_.push_back(fmt::format("no prediction: {}", answer.error().message));
    return;
  }
  const nlohmann::json json = nlohmann::json::parse(*answer);
  if (detector_) {
    Drift& drift = prediction_.drifts.back();
    drift.cause = json.get<DriftCause>();
    lines_.push_back(drift.to_text(predicted()));
    return;
  }
  prediction_.round_cost = first_->round_cost = json.at(0).get<double>();
  prediction_.predicted = json.at(1).get<double>();
  detector_.emplace(prediction_.predicted);
  lines_.push_back(fmt::format("predicted from the first {} steps: {} batches/s", prediction_.steps,
                               significant(prediction_.predicted)));
}

std::vector<std::string> RateWatch::finish(double seconds) {
  if (task_) take_answer(task_->wait());
  if (!first_steps_end_) {
    gave_up_ = true;
    lines_.push_back(fmt::format(
        "no prediction: the run was over before it had made {} steps a rank in a second or more", first_steps_));
  } else {
    const double left = seconds - first_steps_end_->seconds;
    const auto batches = static_cast<double>(last_.batches - first_steps_end_->batches);
    prediction_.measured = left > 0 ? batches / left : std::nan("");
  }
  return std::exchange(lines_, {});
}

std::optional<RatePrediction> RateWatch::prediction() const {
  if (gave_up_) return std::nullopt;
  return prediction_;
}

}  // namespace command
}  // namespace stretto
