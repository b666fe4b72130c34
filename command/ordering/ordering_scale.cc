#include "command/ordering/ordering_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/papers/ordering/scale/ordering_model.h"

namespace stretto::command {

namespace {

constexpr int kBatch = 32;
constexpr double kBytesOfGradient = 2;  // mixed precision
/// Of a step's computation, which does not get shorter with the batch: launching kernels. Assumed, the paper has none.
constexpr double kLaunching = 12e-3;
constexpr int kGlobalBatch = 24'576;
constexpr std::array kRanks = {6, 24, 96, 384, 1'536, 6'144, 12'288, 24'576};
constexpr int kLeastOfStrong = 96;
constexpr std::array kInputShares = {0.0, 0.24, 0.48, 0.72};

std::vector<ReadyGroup> one_group(double parameters) {
  return {{1, kBytesOfGradient * parameters}};
}

/// A job to be predicted by some schemes.
struct ScaleJob {
  std::string experiment;
  OrderedJob job;
  double samples = kBatch;
  int steps = 0;
  std::vector<OrderingScheme> schemes{kOrderingSchemes.begin(), kOrderingSchemes.end()};
};

std::vector<ScaleJob> jobs_of(const ScaleOptions& options) {
  std::vector<ScaleJob> jobs;
  const std::vector<int> all_ranks = scale_ranks(options);
  for (const int ranks : all_ranks) {
    if (options.strong) {
      jobs.push_back({"strong", strong_job(ranks), static_cast<double>(kGlobalBatch) / ranks, options.steps});
    } else {
      jobs.push_back({"weak", paper_job(ranks), kBatch, options.steps});
    }
  }
  if (options.strong) return jobs;
  const int few = std::max(1, options.steps / 5);
  const int most = all_ranks.back();
  for (const double share : kInputShares) {
    OrderedJob job = paper_job(most);
    job.input = share * job.compute;
    jobs.push_back({input_experiment(share), std::move(job), kBatch, few});
  }
  for (const OrderedNetwork& network : ordered_networks()) {
    jobs.push_back(
        {network.name, network_job(network, most), kBatch, few, {OrderingScheme::coordinator, OrderingScheme::topo}});
  }
  return jobs;
}

}  // namespace

std::span<const OrderedNetwork> ordered_networks() {
  static constexpr std::array<OrderedNetwork, 9> kNetworks = {{{"GoogLeNet", 6'624'904, 0.56, "25, at most 35"},
                                                               {"Inception-v3", 27'161'264, 0.42, "10 to 18"},
                                                               {"ResNet-18", 11'689'512, 0.46, "5 to 21"},
                                                               {"ResNet-34", 21'797'672, 0.55, "5 to 21"},
                                                               {"ResNet-50", 25'557'032, 0.48, "at most 21"},
                                                               {"ResNet-101", 44'549'160, 0.30, "5 to 21"},
                                                               {"ResNet-152", 60'192'808, 0.23, "5 to 21"},
                                                               {"VGG16", 138'357'544, 0.32, "2 to 6"},
                                                               {"AlexNet", 61'100'840, NAN, "-6"}}};
  return kNetworks;
}

double paper_gain(OrderingScheme scheme) {
  switch (scheme) {
    case OrderingScheme::gs: return 0.10;
    case OrderingScheme::nbcs: return 0.16;
    case OrderingScheme::scp: return 0.18;
    case OrderingScheme::topo: return 0.21;
    case OrderingScheme::coordinator: break;
  }
  return 0;
}

OrderedJob network_job(const OrderedNetwork& network, int ranks) {
  OrderedJob job = paper_job(ranks);
  job.groups = one_group(network.parameters);
  if (std::isnan(network.window)) {
    job.input = 0;
  } else {
    job.compute = job.input / network.window;
  }
  return job;
}

OrderedJob strong_job(int ranks) {
  OrderedJob job = paper_job(ranks);
  const double share = static_cast<double>(kGlobalBatch) / ranks / kBatch;
  job.compute = kLaunching + share * (job.compute - kLaunching);
  job.input *= share;
  return job;
}

const OrderedSteps& ScaleRuns::at(const std::string& experiment, int ranks, OrderingScheme scheme) const {
  const auto found = std::ranges::find_if(runs_, [&](const ScaleRun& run) {
    return run.experiment == experiment && run.ranks == ranks && run.scheme == scheme;
  });
  STRETTO_CHECK(found != runs_.end(), "no ", experiment, " of ", name_of(scheme), " on ", ranks, " ranks");
  return found->steps;
}

double ScaleRuns::gain(const std::string& experiment, int ranks, OrderingScheme scheme) const {
  return at(experiment, ranks, OrderingScheme::coordinator).mean_step() / at(experiment, ranks, scheme).mean_step() - 1;
}

std::vector<int> ScaleRuns::ranks_of(const std::string& experiment) const {
  std::vector<int> ranks;
  for (const ScaleRun& run : runs_) {
    if (run.experiment == experiment && run.scheme == OrderingScheme::coordinator) ranks.push_back(run.ranks);
  }
  return ranks;
}

std::string ScaleRuns::csv() const {
  std::string out =
      "experiment,ranks,ordering,samples,step,computing,overhead,waiting,transfer,processor,samples_per_second\n";
  for (const ScaleRun& run : runs_) {
    const OrderedSteps& steps = run.steps;
    out += fmt::format("{},{},{},{:.6g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g}\n", run.experiment, run.ranks,
                       name_of(run.scheme), run.samples, steps.mean_step(), steps.computing, steps.overhead,
                       steps.waiting, steps.transfer, steps.processor, run.ranks * run.samples / steps.mean_step());
  }
  return out;
}

std::vector<int> scale_ranks(const ScaleOptions& options) {
  std::vector<int> out;
  for (const int ranks : kRanks) {
    if (ranks <= options.most_ranks && (!options.strong || ranks >= kLeastOfStrong)) out.push_back(ranks);
  }
  return out;
}

std::string input_experiment(double share) {
  return fmt::format("input {:.2f}", share);
}

ScaleRuns predict_scale(const OrderingCosts& costs, const ScaleOptions& options, double& seconds,
                        const std::function<void(std::size_t)>& progress) {
  ScaleRuns runs;
  seconds = 0;
  for (const ScaleJob& job : jobs_of(options)) {
    const Duration start = thread_time();
    for (const OrderingScheme scheme : job.schemes) {
      runs.add({job.experiment, job.job.ranks, job.samples, scheme,
                predict_ordered_steps(job.job, costs, scheme, job.steps, options.seed)});
      progress(runs.all().size());
    }
    const bool largest = job.job.ranks == scale_ranks(options).back() && seconds == 0;
    if (largest) seconds = stretto::seconds(thread_time() - start);
  }
  return runs;
}

bool repeats_to_the_bit(const OrderingCosts& costs, std::uint64_t seed) {
  constexpr int kRepeatedRanks = 96, kSteps = 10;
  return std::ranges::all_of(kOrderingSchemes, [&](OrderingScheme scheme) {
    const auto once = [&] {
      return predict_ordered_steps(paper_job(kRepeatedRanks), costs, scheme, kSteps, seed).steps;
    };
    return once() == once();
  });
}

double largest_difference(const OrderingCosts& costs, const ScaleOptions& options) {
  double largest = 0;
  for (const int ranks : {6, 24, 96}) {
    const OrderedJob job = paper_job(ranks);
    for (const OrderingScheme scheme : kOrderingSchemes) {
      const double simulated = simulate_ordered_steps(job, costs, scheme, options.steps, options.seed).mean_step();
      const double predicted = predict_ordered_steps(job, costs, scheme, options.steps, options.seed).mean_step();
      largest = std::max(largest, std::abs(predicted / simulated - 1));
    }
  }
  return largest;
}

}  // namespace stretto::command
