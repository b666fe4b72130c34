#include "stretto/papers/servers/server_search.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/papers/servers/parameter_server.h"
#include "stretto/papers/servers/server_oracle.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x736572766572;

struct Scenario {
  ServerJob job;
  Machines machines;
  double passes = 0;  // probability that a step brings no gradient

  std::string to_string() const {
    std::string steps;
    for (const auto& phase : job.steps) {
      std::string all;
      for (const std::uint64_t n : phase) all += text(all.empty() ? "" : ", ", n);
      steps += (steps.empty() ? "" : "; then ") + all;
    }
    return text(job.options.to_string(), ", ", job.ranks, " ranks, ", job.elements.size(), " buckets, steps ", steps,
                job.overlapped ? ", overlapped" : "",
                passes > 0 ? text(", a step is passed with ", passes) : std::string());
  }
};

Scenario draw(std::uint64_t seed, int ranks) {
  Random random(seed, kStream);
  Scenario s;
  ServerJob& job = s.job;
  job.ranks = ranks != 0 ? ranks : draw_ranks(random);
  job.options.mode = static_cast<ServerMode>(random.below(4));
  job.options.servers = static_cast<int>(random.between(0, job.ranks));
  job.options.dedicated = job.ranks > 1 && random.chance(0.2);
  if (job.options.dedicated) job.options.servers = static_cast<int>(random.between(1, job.ranks - 1));
  const int workers = job.options.num_workers(job.ranks);
  job.options.staleness = random.below(4);
  job.options.enough = static_cast<int>(random.between(1, workers));
  for (std::int64_t b = random.between(1, 5); b > 0; --b) job.elements.push_back(random.log_uniform(2, 200));
  const std::uint64_t most = random.log_uniform(1, 30);
  const bool equal = random.chance(0.3);
  job.steps.resize(static_cast<std::size_t>(random.between(1, 3)));
  for (int rank = 0; rank < job.ranks; ++rank) {
    for (auto& phase : job.steps) {
      const std::uint64_t steps = equal ? most : random.chance(0.1) ? 0 : random.below(most + 1);
      phase.push_back(rank < workers ? steps : 0);
    }
  }
  job.overlapped = random.chance(0.5);
  s.machines = draw_machines(random, job.ranks);
  if (random.chance(0.5)) s.passes = random.chance(0.1) ? 1 : random.uniform();
  return s;
}

/// One rank: its end of the server, and an application that computes for a while and pushes. Between phases it reads
/// what it serves.
class Rank {
 public:
  Rank(SearchedJob& searched, const Scenario& scenario, ServerOracle& oracle, int rank)
      : scenario_(scenario),
        job_(scenario.job),
        oracle_(oracle),
        rank_(rank),
        application_(searched, rank,
                     {.waits = [this] { return waits(); },
                      .look =
                          [this] {
                            while (waits() && look()) {
                            }
                          }}) {
    std::vector<BucketSpec> buckets;
    for (const std::uint64_t count : job_.elements) {
      buckets.push_back({DataType::int64, count});
      gradients_.emplace_back(count);
      values_.emplace_back(count);
      served_.emplace_back(count);
    }
    server_.emplace(
        application_.engine(), buckets, job_.options,
        [this](int bucket, std::span<std::byte> to, std::span<const std::byte> from, std::span<std::byte> sum, int) {
          add(to, from, sum);
          std::ranges::copy(to, std::as_writable_bytes(std::span(served_[static_cast<std::size_t>(bucket)])).begin());
        });
    server_->observe(oracle);
  }

  void start() {
    std::vector<std::span<const std::byte>> values;
    for (const auto& value : values_) values.push_back(std::as_bytes(std::span(value)));
    server_->begin(values);
    begin_phase();
    application_.poll();
  }

  bool over() const { return state_ == State::over; }
  ServerCounts counts() const { return server_->counts(); }
  std::uint64_t steps() const { return step_; }
  std::uint64_t phases_without_batch() const { return no_batch_; }

 private:
  enum class State { computing, pushing, waiting, settling, reading, over, failed };

  bool waits() const { return state_ == State::waiting || state_ == State::settling; }

  /// The first element counts versions.
  static void add(std::span<std::byte> to, std::span<const std::byte> from, std::span<std::byte> sum) {
    auto* out = reinterpret_cast<std::uint64_t*>(to.data());
    const auto* in = reinterpret_cast<const std::uint64_t*>(from.data());
    const auto* gradients = reinterpret_cast<const std::uint64_t*>(sum.data());
    out[0] = in[0] + 1;
    for (std::size_t i = 1; i < to.size() / sizeof(std::uint64_t); ++i) {
      out[i] = in[i] + (sum.empty() ? 0 : gradients[i]);
    }
  }

  void begin_phase() {
    ends_at_ = job_.steps_before(phase_ + 1, rank_);
    no_batch_ += ends_at_ == step_ ? 1 : 0;
    compute();
  }

  void compute() {
    if (step_ == ends_at_) {
      state_ = State::settling;
      return;
    }
    state_ = State::computing;
    application_.compute([this] {
      state_ = State::pushing;
      next_ = 0;
      passes_ = scenario_.passes > 0 && application_.random().chance(scenario_.passes);
      push();
    });
  }

  void push() {
    const int buckets = static_cast<int>(job_.elements.size());
    for (; next_ < buckets; ++next_) {
      const auto b = static_cast<std::size_t>(next_);
      const auto value = std::as_writable_bytes(std::span(values_[b]));
      if (passes_) {
        oracle_.passes(next_, rank_);
        server_->pass(next_, value);
      } else {
        oracle_.fill(next_, rank_, step_, gradients_[b]);
        oracle_.pushes(next_, rank_);
        server_->push(next_, std::as_writable_bytes(std::span(gradients_[b])), value);
      }
      if (job_.overlapped && next_ + 1 < buckets) {
        ++next_;
        application_.soon([this] { push(); }, 3000);
        return application_.step();
      }
    }
    ++step_;
    state_ = step_ == ends_at_ && application_.random().chance(0.5) ? State::settling : State::waiting;
    application_.poll();
  }

  /// Returns whether the application has gone on.
  bool look() {
    const bool waits = state_ == State::waiting;
    if (waits && job_.overlapped && !look_by_layer()) return false;
    const Result<bool> there = waits ? server_->ready() : server_->try_settle(targets());
    if (!there) {
      oracle_.violated(text("rank ", rank_, " fails with: ", there.error().message));
      state_ = State::failed;
      return false;
    }
    if (!*there) return false;
    std::vector<std::span<const std::int64_t>> values;
    for (const auto& value : waits&& job_.overlapped ? read_ : values_) values.emplace_back(value);
    if (waits) {
      oracle_.answered(rank_, values);
      read_.clear();
      compute();
    } else {
      oracle_.settled(rank_, values);
      state_ = State::reading;
      application_.soon([this] { read(); }, static_cast<std::uint64_t>(scenario_.machines.compute.count()));
    }
    return true;
  }

  void read() {
    for (int bucket = 0; bucket < static_cast<int>(job_.elements.size()); ++bucket) {
      if (job_.options.server_of(bucket, job_.ranks) != rank_) continue;
      oracle_.served(rank_, bucket, served_[static_cast<std::size_t>(bucket)]);
    }
    if (++phase_ == job_.steps.size()) {
      state_ = State::over;
      return;
    }
    server_->go_on();
    begin_phase();
    application_.poll();
  }

  /// A forward pass, which reads the bucket pushed last first, and each as soon as it is there. Returns whether it has
  /// read all.
  bool look_by_layer() {
    read_.resize(values_.size());
    for (std::size_t b = values_.size(); b-- > 0;) {
      if (!read_[b].empty()) continue;
      const Result<bool> there = server_->ready(static_cast<int>(b));
      if (there && !*there) return false;
      read_[b] = values_[b];
    }
    return true;
  }

  std::vector<std::span<std::byte>> targets() {
    std::vector<std::span<std::byte>> all;
    for (auto& value : values_) all.push_back(std::as_writable_bytes(std::span(value)));
    return all;
  }

  const Scenario& scenario_;
  const ServerJob& job_;
  ServerOracle& oracle_;
  const int rank_;
  SimulatedApplication application_;
  std::optional<ParameterServer> server_;
  std::vector<std::vector<std::int64_t>> gradients_, values_, served_;  // by bucket
  std::vector<std::vector<std::int64_t>> read_;                         // by bucket: the value when it was ready
  State state_ = State::computing;
  std::size_t phase_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t ends_at_ = 0;   // steps at the end of the phase
  std::uint64_t no_batch_ = 0;  // phases
  int next_ = 0;                // bucket to be pushed
  bool passes_ = false;         // the step under way
};

}  // namespace

void run_server_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  const Scenario scenario = draw(seed, limits.ranks);
  finding.job = scenario.to_string();
  for (const auto& phase : scenario.job.steps) {
    finding.rounds += std::max<std::uint64_t>(1, *std::ranges::max_element(phase));
  }
  SearchedJob searched(scenario.machines, seed, finding);
  Random random(seed, kStream + 1);
  ServerOracle oracle(scenario.job, finding);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < scenario.job.ranks; ++rank) {
    all.push_back(std::make_unique<Rank>(searched, scenario, oracle, rank));
  }
  for (int rank = 0; rank < scenario.job.ranks; ++rank) {  // some servers begin late
    searched.cluster.after(Duration(static_cast<std::int64_t>(random.below(20'000))), rank,
                           [&, rank] { all[static_cast<std::size_t>(rank)]->start(); });
  }
  searched.run();
  ServerCounts counts;
  std::uint64_t no_batch = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank]->over()) oracle.violated(text("rank ", rank, " waits forever after step ", all[rank]->steps()));
    const ServerCounts own = all[rank]->counts();
    counts.dropped += own.dropped;
    counts.ages.add(own.ages);
    no_batch += all[rank]->phases_without_batch();
  }
  if (!finding.violation) oracle.over(counts);
  finding.reached = {oracle.dropped(), oracle.stale(),          oracle.lowered(), oracle.ahead(),
                     oracle.too_new(), oracle.others_went_on(), no_batch,         oracle.passed()};
}

}  // namespace stretto
