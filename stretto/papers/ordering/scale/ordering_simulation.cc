#include <algorithm>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/papers/ordering/scale/core_pool.h"
#include "stretto/papers/ordering/scale/ordering_model.h"

namespace stretto {

namespace {

/// A small allreduce of all background threads.
struct ControlRound {
  PoolEvent done = 0;
  int arrived = 0;
  bool all_ready = true;  // whatever is not issued yet was ready on all that arrived
  double shortest = std::numeric_limits<double>::infinity();  // sleep
  std::vector<double> arrivals;
};

struct SimulatedRank {
  CorePools::Thread background = 0;
  CorePools::Accelerator accelerator = 0;
  int scheduled = 0;   // steps that the scheduling thread has been through
  int issued = 0;      // steps whose tensors were handed over
  int input_left = 0;  // threads of the input pipeline that still work
  double input_end = 0;
  double ready = 0;   // when the tensors of the present step were
  double paused = 0;  // that still has to be added to the computation of the present step
  std::size_t round = 0;
  double woke = 0;       // when the present cycle began
  Duration used{0};      // processor time of the background thread that the account knows of
  double spun_from = 0;  // processor time of the background thread before it began to spin
};

class CoreRun {
 public:
  CoreRun(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps, std::uint64_t seed,
          int warm_up, double slice);

  OrderedSteps run();

 private:
  using Operation = CoreOperation;

  double now() const { return seconds(pools_.now().since_start); }

  void add_rank(std::size_t rank);
  CorePools::Program scheduling(std::size_t rank);
  CorePools::Program input(std::size_t rank);
  CorePools::Program blocking(std::size_t rank);
  CorePools::Program nonblocking(std::size_t rank);
  CorePools::Program planned(std::size_t rank);

  /// The event at which the step begins.
  PoolEvent begin_of(int step);
  /// The event at which the rank's tensors of the step are ready.
  PoolEvent ready_of(std::size_t rank, int step);
  ControlRound& control(std::deque<ControlRound>& rounds, std::size_t number);
  /// The rank takes part in the round. When all do its end is planned; returns whether that is so.
  bool arrive(ControlRound& round, std::size_t rank, double nap);
  /// The same for a round that tells what is ready.
  void synchronize(ControlRound& round, std::size_t rank);
  bool is_ready(std::size_t rank) const;
  void issue(std::size_t rank);
  /// Charges the pauses that spinning until now has brought the scheduling thread.
  void charge(std::size_t rank);

  const OrderedJob& job_;
  const OrderingCosts& costs_;
  const OrderingScheme scheme_;
  const std::size_t count_;
  StepAccount account_;
  RankDraws draws_;
  CorePools pools_;
  std::vector<SimulatedRank> ranks_;
  std::vector<PoolEvent> begins_;
  std::vector<std::vector<PoolEvent>> readies_;  // by step, rank
  std::deque<ControlRound> syncs_, minima_;
  int issuing_ = 0;  // ranks that have issued the present step
  std::vector<double> ready_, issued_;
};

CoreRun::CoreRun(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps,
                 std::uint64_t seed, int warm_up, double slice)
    : job_(job),
      costs_(costs),
      scheme_(scheme),
      count_(static_cast<std::size_t>(job.ranks)),
      account_(job, warm_up, steps),
      draws_(seed, count_),
      pools_(from_seconds(slice),
             [this](CorePools::Thread thread, bool busy) {
               // Of the other threads' delays the computation as measured has its part already.
               const auto threads = static_cast<std::size_t>(job_.threads());  // of a rank, the background thread first
               if (thread % threads != 0) return Duration(0);
               Random& random = draws_.oversleeps[thread / threads];
               return from_seconds((busy ? costs_.oversleep_busy : costs_.oversleep_free).draw(random));
             }),
      ranks_(count_),
      ready_(count_),
      issued_(count_) {
  for (std::size_t rank = 0; rank < count_; ++rank) add_rank(rank);
  pools_.signal_at(begin_of(0), {});
}

OrderedSteps CoreRun::run() {
  pools_.run([this] { return account_.finished(); });
  STRETTO_CHECK(account_.finished(), "nothing can happen any more, before the last step");
  return account_.result();
}

void CoreRun::add_rank(std::size_t rank) {
  SimulatedRank& it = ranks_[rank];
  const bool apart = scheme_ == OrderingScheme::scp && job_.cores >= 3;
  const auto shared = pools_.add_pool(apart ? job_.cores - 2 : job_.cores);
  const auto background = apart ? pools_.add_pool(1) : shared;
  const auto scheduler = apart ? pools_.add_pool(1) : shared;
  it.accelerator = pools_.add_accelerator();
  switch (scheme_) {
    case OrderingScheme::nbcs: it.background = pools_.add_thread(background, nonblocking(rank)); break;
    case OrderingScheme::topo: it.background = pools_.add_thread(background, planned(rank)); break;
    case OrderingScheme::coordinator:
    case OrderingScheme::gs:
    case OrderingScheme::scp: it.background = pools_.add_thread(background, blocking(rank));
  }
  pools_.add_thread(scheduler, scheduling(rank));
  for (int thread = 0; thread < job_.input_threads; ++thread) pools_.add_thread(shared, input(rank));
}

CorePools::Program CoreRun::scheduling(std::size_t rank) {
  return [this, rank, next = 0]() mutable {
    SimulatedRank& it = ranks_[rank];
    switch (next++ % 3) {
      case 0: return Operation::wait(begin_of(it.scheduled));
      case 1:
        it.paused = compound_poisson(costs_.pause_rate * job_.compute, costs_.pause, draws_.pauses[rank]);
        return Operation::compute(from_seconds(job_.compute));
      default: {
        const PoolEvent ready = ready_of(rank, it.scheduled);
        // The accelerator keeps step with the thread that feeds it; pauses are what it is behind in the end.
        it.ready = now() + it.paused;
        pools_.submit(it.accelerator, from_seconds(it.paused), ready);
        ++it.scheduled;
        return Operation::wait(ready);
      }
    }
  };
}

CorePools::Program CoreRun::input(std::size_t rank) {
  return [this, rank, step = 0, works = false]() mutable {
    SimulatedRank& it = ranks_[rank];
    if (works) {
      works = false;
      if (--it.input_left == 0) it.input_end = now();
    }
    if (!pools_.has_happened(begin_of(step))) return Operation::wait(begin_of(step));
    ++step;
    works = true;
    ++it.input_left;
    return Operation::compute(from_seconds(job_.input));
  };
}

CorePools::Program CoreRun::blocking(std::size_t rank) {
  enum class At { awake, looked, synchronized, agreed };
  return [this, rank, at = At::awake, nap = 0.0]() mutable {
    SimulatedRank& it = ranks_[rank];
    const auto sleep = [&](double time) {
      at = At::awake;
      return Operation::sleep(from_seconds(time));
    };
    while (true) {
      switch (at) {
        case At::awake: at = At::looked; return Operation::compute(from_seconds(costs_.look));
        case At::looked: {
          ControlRound& round = control(syncs_, it.round);
          it.woke = now();
          it.spun_from = seconds(pools_.used(it.background));
          synchronize(round, rank);
          at = At::synchronized;
          return Operation::spin(round.done);
        }
        case At::synchronized: {
          charge(rank);
          if (control(syncs_, it.round).all_ready) issue(rank);
          nap = std::max(0.0, job_.cycle - (now() - it.woke));
          if (scheme_ == OrderingScheme::gs) {
            ControlRound& round = control(minima_, it.round);
            it.spun_from = seconds(pools_.used(it.background));
            arrive(round, rank, nap);
            at = At::agreed;
            return Operation::spin(round.done);
          }
          ++it.round;
          if (nap > 0) return sleep(nap);
          at = At::awake;
          continue;
        }
        case At::agreed:
          charge(rank);
          nap = control(minima_, it.round++).shortest;
          if (nap > 0) return sleep(nap);
          at = At::awake;
          continue;
      }
    }
  };
}

CorePools::Program CoreRun::nonblocking(std::size_t rank) {
  return [this, rank, awake = true, posted = false]() mutable {
    SimulatedRank& it = ranks_[rank];
    awake = !awake;
    if (!awake) return Operation::compute(from_seconds(costs_.look));
    const double nap = std::max(0.0, job_.cycle - costs_.look);
    if (posted) {
      if (!pools_.has_happened(control(syncs_, it.round).done)) return Operation::sleep(from_seconds(nap));
      if (control(syncs_, it.round++).all_ready) issue(rank);
    }
    synchronize(control(syncs_, it.round), rank);
    posted = true;
    return Operation::sleep(from_seconds(nap));
  };
}

CorePools::Program CoreRun::planned(std::size_t rank) {
  return [this, rank, next = 0]() mutable {
    SimulatedRank& it = ranks_[rank];
    switch (next++ % 3) {
      case 0: return Operation::wait(ready_of(rank, it.issued));
      case 1: return Operation::compute(from_seconds(costs_.bookkeeping));
      default: issue(rank); return Operation::wait(ready_of(rank, it.issued));
    }
  };
}

PoolEvent CoreRun::begin_of(int step) {
  while (std::cmp_less_equal(begins_.size(), step)) begins_.push_back(pools_.new_event());
  return begins_[static_cast<std::size_t>(step)];
}

PoolEvent CoreRun::ready_of(std::size_t rank, int step) {
  while (std::cmp_less_equal(readies_.size(), step)) {
    readies_.emplace_back();
    for (std::size_t i = 0; i < count_; ++i) readies_.back().push_back(pools_.new_event());
  }
  return readies_[static_cast<std::size_t>(step)][rank];
}

ControlRound& CoreRun::control(std::deque<ControlRound>& rounds, std::size_t number) {
  while (rounds.size() <= number) {
    rounds.push_back({.done = pools_.new_event(), .arrivals = std::vector<double>(count_)});
  }
  return rounds[number];
}

bool CoreRun::arrive(ControlRound& round, std::size_t rank, double nap) {
  round.all_ready = round.all_ready && is_ready(rank);
  round.shortest = std::min(round.shortest, nap);
  round.arrivals[rank] = now();
  if (++round.arrived < job_.ranks) return false;
  pools_.signal_at(round.done, pools_.now() + from_seconds(costs_.control_latency(job_.ranks)));
  return true;
}

void CoreRun::synchronize(ControlRound& round, std::size_t rank) {
  if (!arrive(round, rank, 0)) return;
  account_.synchronize(round.arrivals);
  round.arrivals = {};
}

bool CoreRun::is_ready(std::size_t rank) const {
  const SimulatedRank& it = ranks_[rank];
  return it.scheduled > it.issued && it.ready <= now();
}

void CoreRun::issue(std::size_t rank) {
  SimulatedRank& it = ranks_[rank];
  ready_[rank] = it.ready;
  issued_[rank] = now();
  ++it.issued;
  const Duration used = pools_.used(it.background);
  account_.use_processor(seconds(used - it.used));
  it.used = used;
  if (++issuing_ < job_.ranks) return;
  issuing_ = 0;
  const double end = account_.issue(ready_, issued_);
  pools_.signal_at(begin_of(it.issued), std::max(pools_.now(), TimePoint{from_seconds(end)}));
}

void CoreRun::charge(std::size_t rank) {
  SimulatedRank& it = ranks_[rank];
  const double spun = seconds(pools_.used(it.background)) - it.spun_from;
  const bool contended = scheme_ != OrderingScheme::scp && job_.threads() > job_.cores;
  if (!contended || it.scheduled > it.issued || !pools_.has_happened(begin_of(it.scheduled))) return;
  const double first = std::max(now() - spun, account_.begin());
  const double last = it.input_left > 0 ? now() : it.input_end;
  if (last <= first) return;
  it.paused += compound_poisson(costs_.preemption_rate * (last - first), costs_.pause, draws_.preemptions[rank]);
}

}  // namespace

OrderedSteps simulate_ordered_steps(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps,
                                    std::uint64_t seed, int warm_up, double slice) {
  STRETTO_CHECK(job.ranks >= 1 && job.cores >= 1 && steps >= 1 && job.groups.size() == 1, job.ranks, " ranks, ",
                job.cores, " cores, ", steps, " steps, ", job.groups.size(), " groups");
  return CoreRun(job, costs, scheme, steps, seed, warm_up, slice).run();
}

}  // namespace stretto
