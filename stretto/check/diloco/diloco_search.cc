#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/prime_field.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/check/partial/scenario.h"
#include "stretto/collective/outer_phases.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x64696c6f636f;
constexpr std::size_t kElements = 2;

struct Job {
  Scenario scenario;
  std::uint64_t local_steps = 1;  // H
  bool keep = false;

  std::string to_string() const {
    return text(scenario.to_string(), ", a phase of ", local_steps, " steps", keep ? ", weights kept" : "");
  }
};

Job draw_job(std::uint64_t seed, int ranks) {
  Job job{.scenario = draw_scenario(seed, {.ranks = ranks, .over = Over::messages})};
  Scenario& s = job.scenario;
  s.buckets = {{DataType::int64, kElements}};
  s.options.delivery = Delivery::every;
  s.options.seats = 0;
  s.bucketwise = false;
  s.crashed_rank = -1;
  s.crashes_with_host = false;
  Random random(seed, kStream);
  job.local_steps = random.log_uniform(1, 6);
  job.keep = random.chance(0.5);
  return job;
}

/// What the ranks of a job must agree on.
class Facts {
 public:
  Facts(const Job& job, const FieldVector& initial, JobFinding& finding)
      : finding(finding), ranks_(static_cast<std::uint64_t>(job.scenario.ranks)), initial_(initial) {}

  void violated(std::string what) { finding.violated(std::move(what)); }
  std::uint64_t rounds() const { return outer_.size(); }

  /// The outer model of `rank` after `round`.
  void applied(int rank, Round round, const FieldVector& outer) {
    if (round == outer_.size()) outer_.push_back(outer);
    if (round > outer_.size()) {
      violated(text("rank ", rank, " is handed round ", round, " before round ", outer_.size()));
    } else if (outer_[round] != outer) {
      violated(text("rank ", rank, " has another outer model after round ", round, " than others"));
    }
  }

  /// `round` is full, or the last; `steps` is the sum of all steps of `rank` so far, which it has all deposited.
  void settled(int rank, Round round, const FieldVector& steps) {
    Settled& settled = settled_[round];
    add(settled.steps, steps);
    if (++settled.ranks < ranks_ || round >= outer_.size()) return;
    FieldVector expected = initial_;
    add(expected, settled.steps, Field(1) / Field(ranks_));
    if (outer_[round] != expected) {
      violated(text("after round ", round, ", of which rank ", rank,
                    " hears last, the outer model is not the initial one moved by the mean of all steps"));
    }
  }

  JobFinding& finding;

 private:
  struct Settled {
    std::uint64_t ranks = 0;
    FieldVector steps;
  };

  const std::uint64_t ranks_;
  const FieldVector initial_;
  std::vector<FieldVector> outer_;    // after each round
  std::map<Round, Settled> settled_;  // full rounds, and the last
};

/// The models of a rank, for OuterPhases.
struct IntegerModels {
  Field ranks;
  std::array<FieldVector, 3> all{};

  FieldVector& of(PhaseModel model) { return all[static_cast<std::size_t>(model)]; }
  void copy(PhaseModel to, PhaseModel from) { of(to) = of(from); }
  void subtract(Contribution& to, PhaseModel from) {
    for (std::size_t i = 0; i < kElements; ++i) {
      to.as<std::uint64_t>(0)[i] = (of(from)[i] - of(PhaseModel::weights)[i]).value();
    }
  }
  void outer_step(const RoundResult& result) {
    for (std::size_t i = 0; i < kElements; ++i) {
      Field& outer = of(PhaseModel::outer)[i];
      outer = outer - Field(result.as<std::uint64_t>(0)[i]) / ranks;
    }
  }
};

/// One rank: the collective, and an application that trains integers.
class Actor {
 public:
  Actor(const Job& job, SearchedJob& searched, Facts& facts, const FieldVector& initial, int rank)
      : job_(job),
        facts_(facts),
        rank_(rank),
        application_(searched, rank, {.waits = [this] { return waits(); }, .look = [this] { look_at_rounds(); }}),
        partial_(application_.engine(), job.scenario.buckets, job.scenario.options),
        models_{Field(static_cast<std::uint64_t>(job.scenario.ranks))},
        phases_(models_, job.keep),
        expected_(initial) {
    models_.of(PhaseModel::weights) = initial;
    phases_.begin();
  }

  void start() { next_step(); }
  bool done() const { return state_ == State::done; }

 private:
  enum class State { computing, exchanging, finishing, done };

  bool waits() const { return state_ == State::exchanging || state_ == State::finishing; }

  void next_step() {
    if (step_ == job_.scenario.steps[static_cast<std::size_t>(rank_)]) {
      if (in_phase_ > 0) end_phase();
      state_ = State::finishing;
      return application_.poll();
    }
    state_ = State::computing;
    application_.compute([this] { step(); });
  }

  void step() {
    const FieldVector step = draw_vector(application_.random(), kElements);
    add(models_.of(PhaseModel::weights), step);
    add(expected_, step);
    add(steps_, step);
    ++step_;
    if (++in_phase_ < job_.local_steps) return next_step();
    end_phase();
    state_ = State::exchanging;
    application_.poll();
  }

  void end_phase() {
    look_at_weights("at the end of a phase");
    Contribution& contribution = partial_.acquire();
    phases_.end_phase(contribution);
    partial_.deposit(contribution, {.batches = in_phase_, .samples = in_phase_});
    in_phase_ = 0;
  }

  void look_at_rounds() {
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
    const FieldVector& outer = models_.of(PhaseModel::outer);
    const bool full = last_was_full_ = result.policy.kind == Policy::Kind::full;
    facts_.applied(rank_, result.round, outer);
    if (full) facts_.settled(rank_, result.round, steps_);
    if (full) expected_ = outer;
    if (rank_ != 0) return;
    ++facts_.finding.reached[full ? 0 : 1];
    facts_.finding.reached[2] += result.header->num_stale() > 0 ? 1 : 0;
  }

  void exchanged() {
    phases_.exchanged();
    const FieldVector& outer = models_.of(PhaseModel::outer);
    if (!job_.keep) expected_ = outer;
    look_at_weights("after an exchange");
    facts_.finding.reached[3] += std::exchange(any_, false) ? 0 : 1;
    facts_.finding.reached[4] += models_.of(PhaseModel::weights) != outer ? 1 : 0;
    next_step();
  }

  void finished() {
    phases_.finish();
    state_ = State::done;
    if (partial_.handed() == 0) return facts_.violated(text("rank ", rank_, " ends without a round"));
    const FieldVector& outer = models_.of(PhaseModel::outer);
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
  Facts& facts_;
  const int rank_;
  SimulatedApplication application_;
  PartialAllreduce partial_;
  IntegerModels models_;
  OuterPhases<IntegerModels> phases_;
  FieldVector expected_;                        // the weights: those taken last, and the steps since
  FieldVector steps_ = FieldVector(kElements);  // their sum
  State state_ = State::computing;
  std::uint64_t step_ = 0;
  std::uint64_t in_phase_ = 0;  // steps of the phase under way
  bool any_ = false;            // rounds handed over in this exchange
  bool last_was_full_ = false;  // of the rounds handed over
};

}  // namespace

void run_diloco_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  const Job job = draw_job(seed, limits.ranks);
  const Scenario& s = job.scenario;
  finding.job = job.to_string();
  SearchedJob searched(s.machines, seed, finding);
  Random random(seed, kStream + 1);
  const FieldVector initial = draw_vector(random, kElements);
  Facts facts(job, initial, finding);
  std::vector<std::unique_ptr<Actor>> all;
  for (int rank = 0; rank < s.ranks; ++rank) {
    all.push_back(std::make_unique<Actor>(job, searched, facts, initial, rank));
  }
  for (const auto& actor : all) actor->start();
  searched.run();
  for (const auto& actor : all) {
    if (!actor->done()) finding.violated(text("the job rests after ", facts.rounds(), " rounds"));
  }
  finding.rounds = facts.rounds();
}

}  // namespace stretto
