#include "stretto/predict/coarse/coarse_prediction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "stretto/base/words.h"
#include "stretto/predict/coarse/closed_network.h"

namespace stretto {
namespace {

/// m
double transfer_of(const TrainingJob& job) {
  return job.model_bytes / job.bandwidth;
}

/// The classes that differ in nothing but the batch as one, since the cost grows with the number of classes.
std::vector<WorkerClass> merged(const std::vector<WorkerClass>& classes) {
  std::map<std::tuple<double, double, double>, std::size_t> index_of;
  std::vector<WorkerClass> out;
  for (const WorkerClass& workers : classes) {
    const auto [at, is_new] = index_of.try_emplace({workers.forward, workers.backward, workers.update}, out.size());
    if (is_new) {
      out.push_back({.count = 0, .forward = workers.forward, .backward = workers.backward, .update = workers.update});
    }
    WorkerClass& same = out[at->second];
    const double examples = same.count * same.batch + workers.count * workers.batch;
    same.count += workers.count;
    same.batch = examples / same.count;
  }
  return out;
}

/// Eqs 3 to 5.
class Asynchronous {
 public:
  Asynchronous(const std::vector<WorkerClass>& classes, const ClosedNetwork& network, double rho_threshold)
      : solutions_(solve(network)) {
    const NetworkSolution& in_order = solutions_.in_order;
    rate_.in_order = in_order.rate;
    rate_.utilization = std::min(1.0, in_order.utilization);  // at saturation it is 1, but for rounding
    rate_.equal_shares = solutions_.equal_shares.rate;
    rate_.chosen = rate_.utilization <= rho_threshold ? LinkSharing::in_order : LinkSharing::equal_shares;
    rate_.steps_per_second = chosen().rate;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      rate_.examples_per_second += classes[c].batch * chosen().classes[c].rate;
    }
  }

  const AsynchronousRate& rate() const { return rate_; }
  bool exact() const { return solutions_.exact; }
  const NetworkSolution& chosen() const {
    return rate_.chosen == LinkSharing::in_order ? solutions_.in_order : solutions_.equal_shares;
  }

 private:
  NetworkSolutions solutions_;
  AsynchronousRate rate_;
};

void predict_asynchronous(const TrainingJob& job, CoarsePrediction& out) {
  const std::vector<WorkerClass> classes = merged(job.classes);
  ClosedNetwork network{.transfer = transfer_of(job), .servers = job.servers};
  for (const WorkerClass& workers : classes) {
    network.classes.push_back({workers.count, workers.forward + workers.backward, workers.update});
  }
  const Asynchronous basic(classes, network, job.rho_threshold);

  // Eq 6: what a transfer takes hides as much of the pass that it goes along with.
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const double hidden = basic.chosen().classes[c].transfer;
    network.classes[c].compute =
        std::max(0.0, classes[c].forward - hidden) + std::max(0.0, classes[c].backward - hidden);
  }
  const Asynchronous overlap(classes, network, job.rho_threshold);
  out.basic = basic.rate();
  out.overlap = overlap.rate();
  out.exact = basic.exact();
}

double slowest(const TrainingJob& job, double WorkerClass::*time) {
  double most = 0;
  for (const WorkerClass& workers : job.classes) most = std::max(most, workers.*time);
  return most;
}

/// Eqs 7 to 11. With several servers each link carries 1/servers of every worker's model, but a worker's own link has
/// the bandwidth of a server's: a phase of K transfers takes as long as max(1, K/servers) of them.
SynchronousStep predict_synchronous(const TrainingJob& job) {
  const double m = transfer_of(job);
  const double forward = slowest(job, &WorkerClass::forward), backward = slowest(job, &WorkerClass::backward);
  const double update = slowest(job, &WorkerClass::update);
  const auto workers = static_cast<double>(job.workers());
  const double all = std::max(1.0, workers / job.servers) * m;
  return {.equal_shares = all + forward + backward + all + update,
          .in_order = all + forward + backward + m + update,
          .mean = all + forward + backward + (all + m) / 2 + update,
          .overlap = std::max(all, forward) + std::max((all + m) / 2, backward) + update,
          .ring = forward + backward + 2 * (workers - 1) / workers * m};
}

CynthiaBaseline predict_as_cynthia(const TrainingJob& job) {
  const double m = transfer_of(job);
  const double compute = slowest(job, &WorkerClass::forward) + slowest(job, &WorkerClass::backward);
  CynthiaBaseline out;
  for (const WorkerClass& workers : job.classes) {
    out.asynchronous += workers.count / (workers.forward + workers.backward + 2 * m);
  }
  out.synchronous = std::max(compute, 2 * m * static_cast<double>(job.workers()) / job.servers);
  return out;
}

std::vector<std::string> notes_on(const TrainingJob& job, const CoarsePrediction& prediction) {
  std::vector<std::string> notes = job.notes;
  const auto differs = [&](double WorkerClass::*time) {
    return std::any_of(job.classes.begin(), job.classes.end(),
                       [&](const WorkerClass& workers) { return workers.*time != job.classes.front().*time; });
  };
  if (differs(&WorkerClass::forward) || differs(&WorkerClass::backward) || differs(&WorkerClass::update)) {
    notes.emplace_back(
        "The workers are unequal: of synchronous training the slowest forward pass, backward pass and update "
        "count.");
  }
  if (!prediction.exact) {
    notes.push_back(text("There are more than ", kMostStates,
                         " combinations of workers to go through: the asynchronous "
                         "rates are approximated (Bard–Schweitzer)."));
  }
  if (job.flow_cap || job.gpus_per_host != 1 || job.nics != 1) {
    notes.emplace_back("flow_cap, gpus_per_host and nics are not looked at here: only the simulation knows them.");
  }
  return notes;
}

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

CoarsePrediction predict_coarse(const TrainingJob& job) {
  CoarsePrediction out;
  out.workers = job.workers();
  for (const WorkerClass& workers : job.classes) out.examples_in_step += workers.count * workers.batch;
  predict_asynchronous(job, out);
  out.synchronous = predict_synchronous(job);
  out.cynthia = predict_as_cynthia(job);
  out.notes = notes_on(job, out);
  return out;
}

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
