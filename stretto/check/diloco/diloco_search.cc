#include "stretto/check/diloco/diloco_search.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/partial/scenario.h"
#include "stretto/collective/protocol/outer_phases.h"
#include "stretto/engine/engine.h"
#include "stretto/simulate/cluster.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x64696c6f636f;
constexpr std::uint64_t kPrime = 2'147'483'647;  // sums of as many as there are ranks, and more, fit into 63 bits
constexpr std::size_t kElements = 2;
constexpr std::uint64_t kMaxEvents = 5'000'000;

using Vector = std::array<std::uint64_t, kElements>;  // each below kPrime

Vector sum(const Vector& a, const Vector& b) {
  Vector out;
  for (std::size_t i = 0; i < kElements; ++i) out[i] = (a[i] + b[i]) % kPrime;
  return out;
}

Vector difference(const Vector& a, const Vector& b) {
  Vector out;
  for (std::size_t i = 0; i < kElements; ++i) out[i] = (a[i] + kPrime - b[i]) % kPrime;
  return out;
}

Vector product(const Vector& a, std::uint64_t factor) {
  Vector out;
  for (std::size_t i = 0; i < kElements; ++i) out[i] = a[i] * factor % kPrime;
  return out;
}

/// 1 / n: n to the power of kPrime − 2.
std::uint64_t inverse(std::uint64_t n) {
  std::uint64_t out = 1;
  for (std::uint64_t exponent = kPrime - 2; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) out = out * n % kPrime;
    n = n * n % kPrime;
  }
  return out;
}

Vector drawn(Random& random) {
  Vector out;
  for (auto& element : out) element = random.below(kPrime);
  return out;
}

struct Job {
  Scenario scenario;
  std::uint64_t local_steps = 1;  // H
  bool keep = false;

  std::string to_string() const {
    return text(scenario.to_string(), ", a phase of ", local_steps, " steps", keep ? ", weights kept" : "");
  }
};

Job draw_job(std::uint64_t seed, int ranks) {
  Job job{.scenario = draw_scenario(seed, {.over = Over::messages, .ranks = ranks})};
  Scenario& s = job.scenario;
  s.over = Over::messages;
  s.buckets = {{DataType::int64, kElements}};
  s.options.delivery = Delivery::every;
  s.options.seats = 0;
  s.bucketwise = false;
  s.crashed_rank = -1;
  Random random(seed, kStream);
  job.local_steps = random.log_uniform(1, 6);
  job.keep = random.chance(0.5);
  return job;
}

/// What the ranks of a job must agree on.
class Facts {
 public:
  Facts(const Job& job, const Vector& initial)
      : ranks_(static_cast<std::uint64_t>(job.scenario.ranks)), initial_(initial) {}

  void violated(const std::string& what) {
    if (!violation_) violation_ = what;
  }
  const std::optional<std::string>& violation() const { return violation_; }
  std::uint64_t rounds() const { return outer_.size(); }

  /// The outer model of `rank` after `round`.
  void applied(int rank, Round round, const Vector& outer) {
    if (round == outer_.size()) outer_.push_back(outer);
    if (round > outer_.size()) {
      violated(text("rank ", rank, " is handed round ", round, " before round ", outer_.size()));
    } else if (outer_[round] != outer) {
      violated(text("rank ", rank, " has another outer model after round ", round, " than others"));
    }
  }

  /// `round` is full, or the last; `steps` is the sum of all steps of `rank` so far, which it has all deposited.
  void settled(int rank, Round round, const Vector& steps) {
    Settled& settled = settled_[round];
    settled.steps = sum(settled.steps, steps);
    if (++settled.ranks < ranks_ || round >= outer_.size()) return;
    if (outer_[round] != sum(initial_, product(settled.steps, inverse(ranks_)))) {
      violated(text("after round ", round, ", of which rank ", rank,
                    " hears last, the outer model is not the initial one moved by the mean of all steps"));
    }
  }

  std::array<std::uint64_t, std::size(kDilocoReaches)> reached{};

 private:
  struct Settled {
    std::uint64_t ranks = 0;
    Vector steps{};
  };

  const std::uint64_t ranks_;
  const Vector initial_;
  std::vector<Vector> outer_;         // after each round
  std::map<Round, Settled> settled_;  // full rounds, and the last
  std::optional<std::string> violation_;
};

/// The models of a rank, for OuterPhases.
struct IntegerModels {
  std::uint64_t one_rank;  // 1 / ranks
  std::array<Vector, 3> all{};

  Vector& of(PhaseModel model) { return all[static_cast<std::size_t>(model)]; }
  void copy(PhaseModel to, PhaseModel from) { of(to) = of(from); }
  void subtract(Contribution& to, PhaseModel from) {
    const Vector d = difference(of(from), of(PhaseModel::weights));
    for (std::size_t i = 0; i < kElements; ++i) to.as<std::int64_t>(0)[i] = static_cast<std::int64_t>(d[i]);
  }
  void outer_step(const RoundResult& result) {
    Vector gradients;
    for (std::size_t i = 0; i < kElements; ++i) {
      gradients[i] = static_cast<std::uint64_t>(result.as<std::int64_t>(0)[i]) % kPrime;
    }
    of(PhaseModel::outer) = difference(of(PhaseModel::outer), product(gradients, one_rank));
  }
};

/// One rank: engine, collective, and an application that trains integers.
class Actor {
 public:
  Actor(const Job& job, SimulatedCluster& cluster, Facts& facts, const Vector& initial, int rank)
      : job_(job),
        cluster_(cluster),
        facts_(facts),
        rank_(rank),
        random_(job.scenario.seed, 2000 + static_cast<std::uint64_t>(rank)),
        engine_(cluster.transport(rank), cluster.clock()),
        partial_(engine_, job.scenario.buckets, job.scenario.options),
        models_{inverse(static_cast<std::uint64_t>(job.scenario.ranks))},
        phases_(models_, job.keep),
        expected_(initial) {
    models_.of(PhaseModel::weights) = initial;
    phases_.begin();
    cluster.on_wake(rank, [this] { run(); });
  }

  void start() { next_step(); }
  bool done() const { return state_ == State::done; }

 private:
  enum class State { computing, exchanging, finishing, done };

  void next_step() {
    const auto rank = static_cast<std::size_t>(rank_);
    const Scenario& s = job_.scenario;
    if (step_ == s.steps[rank]) {
      if (in_phase_ > 0) end_phase();
      state_ = State::finishing;
      return run();
    }
    state_ = State::computing;
    double factor = s.slowness[rank] * (1 + s.spread * (2 * random_.uniform() - 1));
    if (random_.chance(s.stall_probability)) factor *= static_cast<double>(random_.between(10, 50));
    if (random_.chance(s.stop_probability)) {
      cluster_.stop(rank_, cluster_.now() + Duration(s.compute.count() * random_.between(1, 20)));
    }
    cluster_.after(from_seconds(seconds(s.compute) * factor), rank_, [this] { step(); });
  }

  void step() {
    const Vector step = drawn(random_);
    Vector& weights = models_.of(PhaseModel::weights);
    weights = sum(weights, step);
    expected_ = sum(expected_, step);
    steps_ = sum(steps_, step);
    ++step_;
    if (++in_phase_ < job_.local_steps) return next_step();
    end_phase();
    state_ = State::exchanging;
    run();
  }

  void end_phase() {
    look_at_weights("at the end of a phase");
    Contribution& contribution = partial_.acquire();
    phases_.end_phase(contribution);
    partial_.deposit(contribution, {.batches = in_phase_, .samples = in_phase_});
    in_phase_ = 0;
  }

  void run() {
    do {
      look_at_rounds();
    } while (step_engine());
    cluster_.wake_by(rank_, engine_.step_by());
  }

  bool step_engine() {
    bool any = false;
    while (engine_.step()) any = true;
    return any;
  }

  void look_at_rounds() {
    if (state_ != State::exchanging && state_ != State::finishing) return;
    const Round before = partial_.handed();
    const auto apply = [this](const RoundResult& result) { this->apply(result); };
    const auto progress = state_ == State::exchanging ? partial_.try_exchange(apply) : partial_.try_finish(apply);
    any_ = any_ || partial_.handed() != before;
    if (!progress) return facts_.violated(text("rank ", rank_, " fails with: ", progress.error().message));
    if (*progress != PartialAllreduce::Progress::done) return;
    state_ == State::exchanging ? exchanged() : finished();
  }

  void apply(const RoundResult& result) {
    phases_.apply(result);
    const Vector& outer = models_.of(PhaseModel::outer);
    const bool full = last_was_full_ = result.policy.kind == Policy::Kind::full;
    facts_.applied(rank_, result.round, outer);
    if (full) facts_.settled(rank_, result.round, steps_);
    if (full) expected_ = outer;
    if (rank_ != 0) return;
    ++facts_.reached[full ? 0 : 1];
    facts_.reached[2] += result.header->num_stale() > 0 ? 1 : 0;
  }

  void exchanged() {
    phases_.exchanged();
    const Vector& outer = models_.of(PhaseModel::outer);
    if (!job_.keep) expected_ = outer;
    look_at_weights("after an exchange");
    facts_.reached[3] += std::exchange(any_, false) ? 0 : 1;
    facts_.reached[4] += models_.of(PhaseModel::weights) != outer ? 1 : 0;
    next_step();
  }

  void finished() {
    phases_.finish();
    state_ = State::done;
    if (partial_.handed() == 0) return facts_.violated(text("rank ", rank_, " ends without a round"));
    const Vector& outer = models_.of(PhaseModel::outer);
    if (!last_was_full_) facts_.settled(rank_, partial_.handed() - 1, steps_);
    if (models_.of(PhaseModel::weights) != outer) {
      facts_.violated(text("rank ", rank_, " ends with other weights than the outer model"));
    }
  }

  void look_at_weights(const char* when) {
    if (models_.of(PhaseModel::weights) == expected_) return;
    facts_.violated(text("rank ", rank_, ", ", when, " after ", step_,
                         " steps: its weights are not those it has taken last and its own steps since"));
  }

  const Job& job_;
  SimulatedCluster& cluster_;
  Facts& facts_;
  const int rank_;
  Random random_;
  Engine engine_;
  PartialAllreduce partial_;
  IntegerModels models_;
  OuterPhases<IntegerModels> phases_;
  Vector expected_;  // the weights: those taken last, and the steps since
  Vector steps_{};   // their sum
  State state_ = State::computing;
  std::uint64_t step_ = 0;
  std::uint64_t in_phase_ = 0;  // steps of the phase under way
  bool any_ = false;            // rounds handed over in this exchange
  bool last_was_full_ = false;  // of the rounds handed over
};

void run_actors(const Job& job, SimulatedCluster& cluster, Facts& facts, const Vector& initial) {
  std::vector<std::unique_ptr<Actor>> all;
  for (int rank = 0; rank < job.scenario.ranks; ++rank) {
    all.push_back(std::make_unique<Actor>(job, cluster, facts, initial, rank));
  }
  for (const auto& actor : all) actor->start();
  while (!facts.violation() && cluster.run_next()) {
    if (cluster.events() > kMaxEvents) facts.violated("the run does not end");
  }
  for (const auto& actor : all) {
    if (!actor->done()) facts.violated(text("the job rests after ", facts.rounds(), " rounds"));
  }
}

}  // namespace

JobFinding run_diloco_job(std::uint64_t seed, int ranks) {
  const Job job = draw_job(seed, ranks);
  const Scenario& s = job.scenario;
  SimulatedCluster cluster(s.ranks, s.network, seed);
  for (const auto& link : s.slow_links) cluster.slow_link(link.src, link.dst, link.factor);
  Random random(seed, kStream + 1);
  const Vector initial = drawn(random);
  Facts facts(job, initial);
  const CheckFailuresThrow checks_throw;
  try {
    run_actors(job, cluster, facts, initial);
  } catch (const CheckFailure& failure) {
    facts.violated(text("internal check: ", failure.what()));
  }
  return {.job = job.to_string(),
          .violation = facts.violation(),
          .rounds = facts.rounds(),
          .messages = cluster.messages(),
          .reached = {facts.reached.begin(), facts.reached.end()}};
}

}  // namespace stretto
