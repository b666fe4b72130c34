#include "stretto/predict/ordering/step_account.h"

#include <algorithm>
#include <numeric>

namespace stretto {

namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double OrderedSteps::mean_step() const {
  return mean_of(steps);
}

StepAccount::StepAccount(const OrderedJob& job, int warm_up, int steps)
    : job_(job), warm_up_(warm_up), steps_(steps), skew_(static_cast<std::size_t>(job.ranks)) {}

double StepAccount::issue(std::span<const double> ready, std::span<const double> issued) {
  const double last = std::ranges::max(issued);
  const double started = std::max(last, link_free_);
  link_free_ = started + job_.cluster.transfer(job_.groups[group_].bytes, job_.ranks);
  if (++group_ < job_.groups.size()) return link_free_;
  if (counting()) {
    const double mean_ready = mean_of(ready), mean_issued = mean_of(issued);
    sums_.steps.push_back(link_free_ - begin_);
    sums_.computing += mean_ready - begin_;
    sums_.overhead += mean_issued - mean_ready;
    sums_.waiting += std::max(0.0, last - mean_issued);  // a mean may be rounded above the largest
    sums_.transfer += link_free_ - last;
  }
  ++finished_;
  group_ = 0;
  begin_ = link_free_;
  return link_free_;
}

void StepAccount::synchronize(std::span<const double> arrivals) {
  if (!counting()) return;
  ++syncs_;
  skew_.add(arrivals);
}

OrderedSteps StepAccount::result() const {
  OrderedSteps out = sums_;
  const auto steps = static_cast<double>(steps_);
  for (double* sum : {&out.computing, &out.overhead, &out.waiting, &out.transfer}) *sum /= steps;
  out.processor = processor_ / steps / static_cast<double>(job_.ranks);
  out.syncs = syncs_ / steps;
  out.skew = skew_.mean_of_last();
  out.skew_correlation = skew_.at_lags();
  return out;
}

}  // namespace stretto
