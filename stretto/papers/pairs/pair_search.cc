#include "stretto/papers/pairs/pair_search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/prime_field.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/kernel/mix.h"
#include "stretto/papers/pairs/pair_exchange.h"

namespace stretto {
namespace {

static_assert(Field::kPrime == kMixPrime);

constexpr std::uint64_t kJobStream = 0x7061697273;

using Values = std::vector<FieldVector>;  // by bucket

std::span<std::byte> bytes(FieldVector& values) {
  return std::as_writable_bytes(std::span(values));
}

void add(Values& sum, const Values& values, Field factor = Field(1)) {
  for (std::size_t b = 0; b < sum.size(); ++b) add(sum[b], values[b], factor);
}

struct Job {
  std::uint64_t seed = 0;
  int ranks = 2;
  PairOptions options;
  std::uint64_t every = 1;                          // own steps between two exchanges
  std::vector<BucketSpec> buckets;                  // of int64
  std::vector<std::vector<std::uint64_t>> batches;  // by phase and rank
  Machines machines;

  bool center() const { return options.pairing == Pairing::center; }
  Values zeros() const {
    Values out;
    for (const BucketSpec& bucket : buckets) out.emplace_back(bucket.count);
    return out;
  }
  Values draw(Random& random) const {
    Values out;
    for (const BucketSpec& bucket : buckets) out.push_back(draw_vector(random, bucket.count));
    return out;
  }
  std::string to_string() const {
    std::uint64_t most = 0, least = ~std::uint64_t{0}, elements = 0;
    for (const auto& phase : batches) {
      most = std::max(most, *std::ranges::max_element(phase));
      least = std::min(least, *std::ranges::min_element(phase));
    }
    for (const BucketSpec& bucket : buckets) elements += bucket.count;
    return text(ranks, " ranks, ", center() ? "a center" : "pairs", ", weight ", options.weight, ", an exchange every ",
                every, " steps, ", buckets.size(), " buckets of ", elements, " residues, ", batches.size(),
                " phases of ", least, " to ", most, " batches a rank");
  }
};

Job draw(std::uint64_t seed, int ranks, Pairing pairing) {
  Random random(seed, kJobStream);
  Job job{.seed = seed, .ranks = ranks != 0 ? ranks : draw_ranks(random)};
  job.options = {.pairing = pairing, .seed = random.bits()};
  if (pairing == Pairing::center) {
    job.options.weight = job.options.back = random.uniform();
    job.every = random.log_uniform(1, 4);
  }
  const auto num_buckets = random.between(1, 3);
  for (int b = 0; b < num_buckets; ++b) job.buckets.push_back({DataType::int64, random.log_uniform(1, 20)});
  const auto phases = random.between(1, 3);
  const std::uint64_t most = random.log_uniform(1, 12);
  for (int phase = 0; phase < phases; ++phase) {
    auto& batches = job.batches.emplace_back();
    for (int rank = 0; rank < job.ranks; ++rank) batches.push_back(random.chance(0.1) ? 0 : random.below(most + 1));
  }
  job.machines = draw_machines(random, job.ranks);
  return job;
}

/// What must hold whenever the ranks meet. A rank may be in a phase while another has not met at the end of the last.
class Sums {
 public:
  Sums(const Job& job, JobFinding& finding) : finding(finding), models_(job.ranks + (job.center() ? 1 : 0)) {
    Random random(job.seed, kJobStream + 1);
    start_ = job.draw(random);
    for (std::size_t i = 0; i < job.batches.size(); ++i) phases_.push_back({.moved = job.zeros(), .sum = job.zeros()});
  }

  const Values& start() const { return start_; }
  void made_step(std::size_t phase, const Values& step) { add(phases_[phase].moved, step); }

  /// A rank's model, or the center, when it has settled.
  void settled(std::size_t phase, const Values& model) {
    Phase& p = phases_[phase];
    add(p.sum, model);
    if (++p.settled < models_) return;
    add(p.moved, phase == 0 ? start_ : phases_[phase - 1].meeting, Field(static_cast<std::uint64_t>(models_)));
    if (p.sum != p.moved) violated(text("phase ", phase, ": the models have moved by more or less than the steps"));
  }

  /// A rank has the model with which all go on.
  void met(std::size_t phase, const Values& model) {
    Phase& p = phases_[phase];
    if (p.meeting.empty()) p.meeting = model;
    if (model != p.meeting) violated(text("phase ", phase, ": the ranks end with different models"));
  }

  void violated(std::string what) { finding.violated(std::move(what)); }

  JobFinding& finding;

 private:
  struct Phase {
    int settled = 0;
    Values moved, sum;  // by the steps; of the models
    Values meeting;     // with which all go on; empty: not there yet
  };

  const int models_;
  Values start_;
  std::vector<Phase> phases_;
};

class Rank {
 public:
  Rank(SearchedJob& searched, const Job& job, Sums& sums, int rank)
      : job_(job),
        sums_(sums),
        rank_(rank),
        application_(searched, rank,
                     {.waits = [this] { return state_ != State::computing && state_ != State::done; },
                      .look = [this] { look(); }}),
        pairs_(application_.engine(), job.buckets, job.options),
        meeting_(application_.engine(), job.buckets, {.policy = Policy::full()}) {}

  void start() {
    begin(sums_.start());
    application_.look_again();
  }

  std::uint64_t exchanges() const { return pairs_.exchanges(); }
  std::optional<std::string> rests() const {
    if (state_ == State::done) return std::nullopt;
    const char* where = state_ == State::exchanging ? "waits for an answer"
                        : state_ == State::settling ? "waits for the end of a phase"
                        : state_ == State::meeting  ? "waits for all ranks"
                                                    : "computes";
    return text("the job rests: rank ", rank_, ' ', where, " in phase ", phase_);
  }

 private:
  enum class State { computing, exchanging, settling, meeting, done };

  void begin(const Values& model) {
    model_ = model;
    std::vector<std::span<const std::byte>> all;
    for (auto& bucket : model_) all.push_back(bytes(bucket));
    pairs_.begin(all);
    step_ = 0;
    if (batches() == 0) ++sums_.finding.reached[2];
    next_batch();
  }

  std::uint64_t batches() const { return job_.batches[phase_][static_cast<std::size_t>(rank_)]; }

  void next_batch() {
    if (step_ == batches()) {
      state_ = State::settling;
      return application_.poll();
    }
    state_ = State::computing;
    application_.compute([this] {
      const Values step = job_.draw(application_.random());
      sums_.made_step(phase_, step);
      add(model_, step);
      changed_ = false;
      add_bucket(0);
    });
  }

  void add_bucket(std::size_t bucket) {
    if (pairs_.add_step(static_cast<int>(bucket), bytes(model_[bucket])) > 0) changed_ = true;
    if (bucket + 1 < model_.size()) {
      return application_.soon([this, bucket] { add_bucket(bucket + 1); });
    }
    if (changed_) ++sums_.finding.reached[0];
    ++step_;
    if (step_ % job_.every != 0) return next_batch();
    application_.soon([this] {
      state_ = State::exchanging;
      application_.poll();
      if (state_ == State::exchanging) ++sums_.finding.reached[1];
    });
  }

  void look() {
    if (state_ == State::exchanging) {
      const auto done = pairs_.try_exchange();
      if (!done) return sums_.violated(done.error().message);
      if (!*done && !pairs_.asks()) sums_.violated(text("rank ", rank_, " waits, and only answers"));
      if (*done) next_batch();
    } else if (state_ == State::settling) {
      const auto done = pairs_.try_settle();
      if (!done) return sums_.violated(done.error().message);
      if (*done) settled();
    } else if (state_ == State::meeting) {
      const auto done = meeting_.try_exchange([this](const RoundResult& result) { meet(result); });
      if (!done) return sums_.violated(done.error().message);
      if (*done == PartialAllreduce::Progress::done) met();
    }
  }

  void settled() {
    for (std::size_t b = 0; b < model_.size(); ++b) pairs_.read(static_cast<int>(b), bytes(model_[b]));
    sums_.settled(phase_, model_);
    if (job_.center()) {
      // The center is all that is brought.
      for (std::size_t b = 0; b < model_.size(); ++b) {
        std::ranges::fill(model_[b], Field());
        if (pairs_.owns_center()) pairs_.read_center(static_cast<int>(b), bytes(model_[b]));
      }
      if (pairs_.owns_center()) sums_.settled(phase_, model_);
    }
    Contribution& mine = meeting_.acquire();
    for (std::size_t b = 0; b < model_.size(); ++b) {
      std::ranges::transform(model_[b], mine.as<std::uint64_t>(static_cast<int>(b)).begin(), &Field::value);
    }
    meeting_.deposit(mine, {});
    state_ = State::meeting;
    application_.poll();  // arrives, which its engine sees in its next step
  }

  void meet(const RoundResult& result) {
    for (std::size_t b = 0; b < model_.size(); ++b) {
      const auto sum = result.as<std::uint64_t>(static_cast<int>(b));
      const Field models(job_.center() ? 1 : static_cast<std::uint64_t>(job_.ranks));
      for (std::size_t i = 0; i < sum.size(); ++i) model_[b][i] = Field(sum[i]) / models;
    }
    sums_.met(phase_, model_);
  }

  void met() {
    if (++phase_ == job_.batches.size()) {
      state_ = State::done;
    } else {
      begin(model_);
    }
  }

  const Job& job_;
  Sums& sums_;
  const int rank_;
  SimulatedApplication application_;
  PairExchange pairs_;
  PartialAllreduce meeting_;

  State state_ = State::computing;
  bool changed_ = false;
  std::size_t phase_ = 0;
  std::uint64_t step_ = 0;
  Values model_;
};

void run(std::uint64_t seed, int ranks, Pairing pairing, JobFinding& finding) {
  const Job job = draw(seed, ranks, pairing);
  SearchedJob searched(job.machines, seed, finding, true);
  finding.job = job.to_string();
  Sums sums(job, finding);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < job.ranks; ++rank) all.push_back(std::make_unique<Rank>(searched, job, sums, rank));
  for (const auto& rank : all) rank->start();
  searched.run();
  for (const auto& rank : all) {
    if (!finding.violation) finding.violation = rank->rests();
    finding.rounds += rank->exchanges();
  }
  finding.rounds += job.batches.size();
}

}  // namespace

void run_ad_psgd_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  run(seed, limits.ranks, Pairing::bipartite, finding);
}

void run_easgd_async_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  run(seed, limits.ranks, Pairing::center, finding);
}

}  // namespace stretto
