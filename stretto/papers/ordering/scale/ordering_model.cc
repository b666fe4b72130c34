#include "stretto/papers/ordering/scale/ordering_model.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

namespace {

/// What the ranks' computation and background threads do to each other, over the steps of a run.
class VectorRun {
 public:
  VectorRun(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps, std::uint64_t seed,
            int warm_up)
      : job_(job),
        costs_(costs),
        own_core_(scheme == OrderingScheme::scp),
        ranks_(static_cast<std::size_t>(job.ranks)),
        account_(job, warm_up, steps),
        draws_(seed, ranks_),
        late_(ranks_),
        input_end_(ranks_),
        ready_(ranks_),
        issued_(ranks_),
        at_(ranks_, 0) {
    begin_step();
  }

  OrderedSteps blocking(bool same_sleep);
  OrderedSteps nonblocking();
  OrderedSteps planned();

 private:
  void begin_step();
  /// The background thread of the rank keeps a core busy from `from` to `to`.
  void spin(std::size_t rank, double from, double to);
  double oversleep(std::size_t rank, double wakes);
  double ready(std::size_t rank, std::size_t group) const {
    return account_.begin() + late_[rank] + job_.groups[group].computed * job_.compute;
  }
  /// Whether each rank had the present group's tensors ready when it last looked, at at_[rank].
  bool all_ready() const;
  /// Hands the present group over, at issued_.
  void issue();

  const OrderedJob& job_;
  const OrderingCosts& costs_;
  const bool own_core_;
  const std::size_t ranks_;
  StepAccount account_;
  RankDraws draws_;
  std::vector<double> late_;       // of the computation of the present step
  std::vector<double> input_end_;  // when the input pipeline has done its work of this step
  std::vector<double> ready_, issued_;
  std::vector<double> at_;  // when each background thread looks, or arrives
};

void VectorRun::begin_step() {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    late_[rank] = compound_poisson(costs_.pause_rate * job_.compute, costs_.pause, draws_.pauses[rank]);
    input_end_[rank] = account_.begin() + job_.input;
  }
}

void VectorRun::spin(std::size_t rank, double from, double to) {
  account_.use_processor(to - from);
  const bool contended = !own_core_ && job_.threads() > job_.cores;
  if (!contended) return;
  const double first = std::max(from, account_.begin());
  const double last = std::min({to, input_end_[rank], ready(rank, job_.groups.size() - 1)});
  if (last <= first) return;
  const double beside = last - first;
  const double share = 1 - static_cast<double>(job_.cores) / job_.threads();
  const double taken = beside * share * costs_.spin_stretch;
  late_[rank] += taken + compound_poisson(costs_.preemption_rate * beside, costs_.pause, draws_.preemptions[rank]);
  input_end_[rank] += taken;
}

double VectorRun::oversleep(std::size_t rank, double wakes) {
  const bool busy = !own_core_ && job_.threads() > job_.cores && wakes < input_end_[rank];
  return (busy ? costs_.oversleep_busy : costs_.oversleep_free).draw(draws_.oversleeps[rank]);
}

bool VectorRun::all_ready() const {
  const std::size_t group = account_.group();
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (ready(rank, group) > at_[rank]) return false;
  }
  return true;
}

void VectorRun::issue() {
  for (std::size_t rank = 0; rank < ranks_; ++rank) ready_[rank] = ready(rank, account_.group());
  account_.issue(ready_, issued_);
  if (account_.group() == 0) begin_step();
}

OrderedSteps VectorRun::blocking(bool same_sleep) {
  const double latency = costs_.control_latency(job_.ranks);
  while (!account_.finished()) {
    account_.synchronize(at_);
    const double done = std::ranges::max(at_) + latency;
    // With what the ranks said on arrival; what they spin meanwhile makes nothing ready.
    bool issues = all_ready();
    for (std::size_t rank = 0; rank < ranks_; ++rank) spin(rank, at_[rank], done);
    for (; issues; issues = account_.group() != 0 && all_ready()) {
      std::ranges::fill(issued_, done);
      issue();
    }
    account_.use_processor(costs_.look * job_.ranks);
    double shortest = std::numeric_limits<double>::infinity();
    for (const double arrived : at_) shortest = std::min(shortest, std::max(0.0, job_.cycle - (done - arrived)));
    const double goes_on = same_sleep ? done + latency : done;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (same_sleep) spin(rank, done, goes_on);
      const double nap = same_sleep ? shortest : std::max(0.0, job_.cycle - (done - at_[rank]));
      at_[rank] = goes_on + costs_.look + nap;
      if (nap > 0) at_[rank] += oversleep(rank, at_[rank]);
    }
  }
  return account_.result();
}

OrderedSteps VectorRun::nonblocking() {
  const double latency = costs_.control_latency(job_.ranks);
  const double nap = std::max(0.0, job_.cycle - costs_.look);
  while (!account_.finished()) {
    account_.synchronize(at_);
    const double done = std::ranges::max(at_) + latency;
    const bool issues = all_ready();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      do {
        at_[rank] += costs_.look + nap;
        at_[rank] += oversleep(rank, at_[rank]);
        account_.use_processor(costs_.look);
      } while (at_[rank] < done);
      issued_[rank] = at_[rank];
    }
    if (issues) issue();
  }
  return account_.result();
}

OrderedSteps VectorRun::planned() {
  while (!account_.finished()) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const double full = ready(rank, account_.group());
      const double earliest = account_.group() == 0 ? full : std::max(full, issued_[rank]);
      issued_[rank] = earliest + oversleep(rank, earliest) + costs_.bookkeeping;
    }
    account_.use_processor((costs_.look + costs_.bookkeeping) * job_.ranks);
    issue();
  }
  return account_.result();
}

}  // namespace

OrderedSteps predict_ordered_steps(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps,
                                   std::uint64_t seed, int warm_up) {
  STRETTO_CHECK(job.ranks >= 1 && job.cores >= 1 && steps >= 1 && !job.groups.empty(), job.ranks, " ranks, ", job.cores,
                " cores, ", steps, " steps, ", job.groups.size(), " groups");
  VectorRun run(job, costs, scheme, steps, seed, warm_up);
  switch (scheme) {
    case OrderingScheme::coordinator:
    case OrderingScheme::scp: return run.blocking(false);
    case OrderingScheme::gs: return run.blocking(true);
    case OrderingScheme::nbcs: return run.nonblocking();
    case OrderingScheme::topo: break;
  }
  return run.planned();
}

}  // namespace stretto
