#include "stretto/predict/coarse/threshold_fit.h"

#include <algorithm>
#include <cmath>

namespace stretto {
namespace {

/// The job with the workers of the run.
TrainingJob as_measured(const TrainingJob& job, const MeasuredRate& run, double rho_threshold) {
  TrainingJob out = job;
  out.rho_threshold = rho_threshold;
  for (std::size_t c = 0; c < out.classes.size(); ++c) out.classes[c].count = run.counts[c];
  std::erase_if(out.classes, [](const WorkerClass& workers) { return workers.count == 0; });
  return out;
}

std::vector<ThresholdFit::Run> predict_all(std::span<const TrainingJob> jobs, double rho_threshold) {
  std::vector<ThresholdFit::Run> runs;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (std::size_t i = 0; i < jobs[j].measured.size(); ++i) {
      const MeasuredRate& run = jobs[j].measured[i];
      const CoarsePrediction prediction = predict_coarse(as_measured(jobs[j], run, rho_threshold));
      const AsynchronousRate& rate = jobs[j].overlap ? prediction.overlap : prediction.basic;
      runs.push_back({j, i, rate, std::abs(rate.steps_per_second / run.steps_per_second - 1)});
    }
  }
  return runs;
}

ThresholdFit::Candidate judge(double rho_threshold, const std::vector<ThresholdFit::Run>& runs) {
  ThresholdFit::Candidate candidate{.rho_threshold = rho_threshold};
  for (const ThresholdFit::Run& run : runs) {
    candidate.mean_error += run.error / static_cast<double>(runs.size());
    candidate.max_error = std::max(candidate.max_error, run.error);
    candidate.in_order += run.predicted.chosen == LinkSharing::in_order ? 1 : 0;
  }
  return candidate;
}

}  // namespace

ThresholdFit fit_threshold(std::span<const TrainingJob> jobs) {
  ThresholdFit fit;
  for (int tenths = 1; tenths <= 10; ++tenths) {
    const double rho_threshold = tenths / 10.0;
    fit.candidates.push_back(judge(rho_threshold, predict_all(jobs, rho_threshold)));
  }
  // Candidates between which no run lies predict alike, to the bit.
  double least = fit.candidates.front().mean_error;
  for (const auto& candidate : fit.candidates) {
    least = std::min(least, candidate.mean_error);
    fit.decided |= candidate.mean_error != fit.candidates.front().mean_error;
  }
  std::vector<double> best;
  for (const auto& candidate : fit.candidates) {
    if (candidate.mean_error == least) best.push_back(candidate.rho_threshold);
  }
  fit.rho_threshold = best[(best.size() - 1) / 2];
  fit.runs = predict_all(jobs, fit.rho_threshold);
  return fit;
}

}  // namespace stretto
