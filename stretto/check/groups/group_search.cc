#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/pages.h"
#include "stretto/base/random.h"
#include "stretto/check/groups/group_oracle.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/collective/probes.h"
#include "stretto/collective/rounds/groups/standing_rounds.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x67726f757073;
constexpr double kHostIsLost = 0.2;  // probability, of a job on several

struct Job {
  GroupJob what;
  std::uint64_t again = 0;  // on a board: a rank publishes each model up to so many times more
  std::uint64_t seed = 0;
  int lost_host = -1;   // all of its ranks die at once, or −1
  int first_lost = -1;  // when this one of them has made so many steps
  std::uint64_t lost_after = 0;

  bool loses(int rank) const { return lost_host >= 0 && what.machines.members.host_of(rank) == lost_host; }
  std::string to_string() const {
    return what.to_string() + (lost_host < 0 ? "" : text(", host ", lost_host, " is lost"));
  }
};

Field field_at(std::span<const std::byte> bytes, std::size_t i) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + 8 * i, 8);
  return Field(value);
}

template <class Number>
void for_numbers(std::span<std::byte> bytes, Number number) {
  for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
    const std::uint64_t value = number(i).value();
    std::memcpy(bytes.data() + 8 * i, &value, 8);
  }
}

/// The weights are numbers of a prime field.
constexpr ModelMath kFieldMath{
    .mean =
        [](DataType, std::span<std::byte> model, std::span<const std::byte> sum, double members) {
          const Field n(static_cast<std::uint64_t>(members));
          for_numbers(model, [&](std::size_t i) { return field_at(sum, i) / n; });
        },
    .put_on =
        [](DataType, std::span<std::byte> model, std::span<const std::byte> stands, std::span<const std::byte> base) {
          for_numbers(model,
                      [&](std::size_t i) { return field_at(stands, i) + (field_at(model, i) - field_at(base, i)); });
        }};

Job draw_job(std::uint64_t seed, const JobLimits& limits) {
  Random random(seed, kStream);
  Job job{.seed = seed};
  GroupJob& what = job.what;
  what.ranks = draw_ranks(random);
  if (limits.ranks != 0) what.ranks = limits.ranks;
  GroupOptions& options = what.options;
  options.group_size = what.ranks == 1 ? 1 : static_cast<int>(random.between(2, what.ranks));
  if (random.chance(0.15)) options.order = GroupOrder::fixed;
  options.full_every = static_cast<Round>(random.between(1, 8));
  if (random.chance(0.4)) options.quorum = static_cast<int>(random.between(1, what.ranks));
  if (random.chance(0.3)) options.late = LateRank::jumps;
  if (random.chance(0.3)) options.late_sum = LateSum::own;
  what.stale = random.chance(0.5) ? StaleRule::mix : StaleRule::carry;
  options.keep_own = what.stale == StaleRule::carry;
  what.publish_after = random.chance(0.5);
  what.length = random.log_uniform(2, random.chance(0.05) ? 12'000 : 40);  // beyond 8,192 in the way of large buckets
  const std::uint64_t most = random.log_uniform(1, 40);
  for (int rank = 0; rank < what.ranks; ++rank) {
    what.batches.push_back(random.chance(0.5) ? most : random.below(most + 1));
  }
  what.machines = draw_machines(random, what.ranks);
  options.piece_bytes = kCacheLine * static_cast<std::uint64_t>(random.between(1, 4));
  // A rank that publishes in a loop beside ranks that are put to sleep while they read its models.
  if (random.chance(0.3)) {
    what.machines.asleep = 0.1;
    job.again = random.between(1, 8);
  }
  options.seats = draw_over(random, limits.over, what.machines);
  if (what.shares_memory()) {
    options.late_sum = LateSum::newest;  // sums of the own iteration go by messages
    what.length = std::min<std::uint64_t>(what.length, 100);
  }
  if (random.chance(0.4)) {
    what.stale = StaleRule::moves;
    what.publish_after = false;
    options.moves = &kFieldMath;
    options.keep_own = false;
    options.late_sum = LateSum::newest;
    job.again = 0;
  }
  const Members& members = what.machines.members;
  if (members.hosts() > 1 && random.chance(kHostIsLost)) {
    job.first_lost = static_cast<int>(random.below(static_cast<std::uint64_t>(what.ranks)));
    job.lost_host = members.host_of(job.first_lost);
    job.lost_after = random.below(what.batches[static_cast<std::size_t>(job.first_lost)] + 1);
  }
  return job;
}

/// One rank: the real collective, and an application whose every step is an event.
class Actor final : private GroupObserver {
 public:
  Actor(const Job& job, SearchedJob& searched, GroupOracle& oracle, int rank)
      : job_(job),
        oracle_(oracle),
        models_(job.what),
        rank_(rank),
        application_(searched, rank,
                     {.waits = [this] { return waits(); },
                      .look = [this] { look(); },
                      .stepped = [this] { oracle_.look_at(rank_, probe_.state()); }}),
        collective_(application_.engine(), models_.buckets(), job.what.options),
        probe_(collective_) {
    probe_.observe(*this);
  }

  void start() {
    if (!defect(Defect::group_no_initial)) publish_at_once();
    next_batch();
  }

  bool done() const { return state_ == State::done; }
  bool failed() const { return state_ == State::failed; }
  Field model() const { return weight_; }
  std::uint64_t steps() const { return step_; }
  std::uint64_t jumps() const { return jumps_; }
  ProtocolState protocol() const { return probe_.state(); }
  Field stands() const { return probe_.versions() == 0 ? Field() : field_at(probe_.stands(), 0); }

 private:
  enum class State { computing, publishing, exchanging, finishing, done, failed, lost };

  void joined(Round round, int rank, std::uint64_t version) override { oracle_.joined(rank, round, version); }
  void completed(int rank, const StandingSum& sum) override { oracle_.completed(rank, sum); }
  void settled() override { oracle_.settled(rank_, collective_.next(), last_step_); }
  bool moves() const { return job_.what.options.moves != nullptr; }

  void next_batch() {
    if (rank_ == job_.first_lost && step_ == job_.lost_after) {
      state_ = State::lost;
      return application_.crash(true);
    }
    if (step_ == job_.what.batches[static_cast<std::size_t>(rank_)]) {
      if (defect(Defect::group_stops)) {
        state_ = State::done;
        return;
      }
      state_ = State::finishing;
      collective_.drain();
      if (!moves()) publish_at_once();
      oracle_.drained(rank_);
      return application_.poll();
    }
    state_ = State::computing;
    application_.compute([this] { step_done(); });
  }

  void step_done() {
    last_step_ = Field(random_bits(job_.seed, static_cast<std::uint64_t>(rank_), ++step_));
    weight_ = weight_ + last_step_;
    state_ = State::publishing;
    begin_model(job_.what.shares_memory() ? application_.random().below(job_.again + 1) : 0);
  }

  /// The model is written in two halves, between which anything may happen, and published; `again`: and so many times
  /// more.
  void begin_model(std::uint64_t again) {
    if (!probe_.may_acquire()) {
      return soon([this, again] { begin_model(again); });
    }
    writing_ = &collective_.acquire();
    models_.write(*writing_, rank_, probe_.versions() + 1, weight_, 0);
    soon([this, again] {
      models_.write(*writing_, rank_, probe_.versions() + 1, weight_, 1);
      publish();
      application_.step();
      if (again > 0) return begin_model(again - 1);
      state_ = State::exchanging;
      application_.poll();
    });
  }

  void soon(std::function<void()> then) { application_.soon(std::move(then), job_.again > 0 ? 300 : 2000); }

  void publish_at_once() {
    writing_ = &collective_.acquire();
    for (const int part : {0, 1}) models_.write(*writing_, rank_, probe_.versions() + 1, weight_, part);
    publish();
  }

  void publish() {
    if (!moves() || probe_.versions() == 0) {
      oracle_.published(rank_, probe_.versions() + 1, collective_.next(), weight_);
    }
    collective_.publish(*std::exchange(writing_, nullptr), {.batches = 1, .samples = 1});
  }

  void apply(const GroupResult& result) {
    const Field before = weight_;
    const Field sum = models_.read(result.sum).weight;
    const Field n(static_cast<std::uint64_t>(result.members));
    switch (model_move(result.fresh, state_ == State::finishing, job_.what.stale)) {
      case ModelMove::average: weight_ = sum / n; break;
      case ModelMove::mix: weight_ = (sum + before) / (n + Field(1)); break;
      case ModelMove::carry:
        weight_ = sum / n + (before - Field(static_cast<std::uint64_t>(
                                          reinterpret_cast<const std::int64_t*>(result.own->bucket(0).data())[0])));
        break;
    }
    oracle_.used(rank_, result, before, weight_);
    if (moves()) return;
    if (job_.what.publish_after || result.full || state_ == State::finishing) publish_at_once();
  }

  bool waits() const { return state_ == State::exchanging || state_ == State::finishing; }

  void look() {
    if (!moves() && !probe_.may_acquire())
      return application_.look_again();  // for the model that is published with the result
    const auto apply = [this](const GroupResult& result) { this->apply(result); };
    const Round ticket = collective_.next();
    const bool waited = probe_.state().waiting;
    const auto progress = state_ == State::exchanging ? collective_.try_exchange(apply) : collective_.try_finish(apply);
    if (!progress) {
      if (!job_.loses(progress.error().rank)) {
        oracle_.violated(text("rank ", rank_, " fails with: ", progress.error().message));
      }
      state_ = State::failed;
      return;
    }
    if (*progress != GroupAllreduce::Progress::done) {
      const ProtocolState state = probe_.state();
      if (job_.what.shares_memory() && state.waiting && !waited) application_.look_again();  // it has arrived just now
      if (state_ == State::exchanging && !probe_.unsettled()) oracle_.arrived(rank_, ticket);
      if (state_ == State::finishing && state.full && collective_.handed() >= state.complete) {
        oracle_.arrived(rank_, state.complete);
      }
      return;
    }
    if (state_ == State::finishing) {
      state_ = State::done;
      return;
    }
    oracle_.exchanged(rank_, ticket);
    jumps_ += collective_.next() - ticket - 1;
    next_batch();
  }

  const Job& job_;
  GroupOracle& oracle_;
  const GroupModels models_;
  const int rank_;
  SimulatedApplication application_;
  GroupAllreduce collective_;
  GroupProbe probe_;
  State state_ = State::computing;
  Field weight_{12345};  // the same everywhere at first
  Field last_step_;      // that it has been moved by
  std::uint64_t step_ = 0, jumps_ = 0;
  Contribution* writing_ = nullptr;
};

}  // namespace

void run_group_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  const Job job = draw_job(seed, limits);
  finding.job = job.to_string();
  SearchedJob searched(job.what.machines, seed, finding);
  GroupOracle oracle(job.what, finding);
  std::vector<std::unique_ptr<Actor>> actors;
  for (int rank = 0; rank < job.what.ranks; ++rank) {
    actors.push_back(std::make_unique<Actor>(job, searched, oracle, rank));
  }
  for (const auto& actor : actors) actor->start();
  const auto look_at_standing_models = [&] {
    if (job.what.stale != StaleRule::moves || finding.violation) return;
    std::vector<Field> weights;
    for (const auto& actor : actors) weights.push_back(actor->stands());
    oracle.stands(weights);
  };
  const auto quiet = [&] {
    if (job.lost_host >= 0) return;
    std::vector<ProtocolState> states;
    for (const auto& actor : actors) states.push_back(actor->protocol());
    oracle.quiet(states);
  };
  searched.run({.transition = look_at_standing_models, .quiet = quiet});
  std::vector<bool> done;
  std::vector<Field> models;
  std::vector<std::uint64_t> steps;
  std::uint64_t jumps = 0;
  for (const auto& actor : actors) {
    done.push_back(actor->done());
    models.push_back(actor->model());
    steps.push_back(actor->steps());
    jumps += actor->jumps();
  }
  if (!finding.violation && job.lost_host < 0) oracle.ended(done, models, steps);
  for (int rank = 0; rank < job.what.ranks && job.lost_host >= 0; ++rank) {
    const Actor& actor = *actors[static_cast<std::size_t>(rank)];
    if (!job.loses(rank) && !actor.done() && !actor.failed()) {
      oracle.violated(text("rank ", rank, " hangs after host ", job.lost_host, " is lost"));
    }
  }
  const GroupOptions& options = job.what.options;
  finding.rounds = oracle.rounds();
  const auto counted = [&](bool yes) { return yes ? finding.rounds : 0; };
  finding.reached = {oracle.stale(),
                     oracle.passed_over(),
                     jumps,
                     counted(job.what.ranks % options.group_size != 0),
                     counted(options.quorum > 1),
                     finding.rounds / options.full_every,
                     counted(options.late_sum == LateSum::own),
                     counted(job.what.on_board()),
                     counted(job.what.machines.over == Over::boards),
                     oracle.put_on_means(),
                     counted(job.what.machines.members.hosts() > 1),
                     job.lost_host >= 0};
}

}  // namespace stretto
