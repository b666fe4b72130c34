#include "stretto/papers/neighbours/neighbour_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/check/harness/prime_field.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/papers/neighbours/mixer.h"
#include "stretto/papers/neighbours/neighbour_exchange.h"
#include "stretto/papers/neighbours/neighbour_job.h"

namespace stretto {
namespace {

void scale(FieldVector& model, Field factor) {
  for (Field& x : model) x = x * factor;
}

struct Mass {
  FieldVector z;
  Field w;
  double weight = 0;  // w as a floating point number
};

class Rank;

/// What the ranks have done, beside the code under test: which messages are on their way, and what all models sum to.
class Ledger {
 public:
  Ledger(const NeighbourJob& job, JobFinding& finding) : finding(finding), job_(job) {}

  void violated(std::string what) { finding.violated(std::move(what)); }

  void sent(Round round, int sender, int receiver, Mass mass) {
    on_their_way_[{receiver, round, sender}] = std::move(mass);
  }
  /// Returns what has been sent under this key, once.
  std::optional<Mass> came(Round round, int sender, int receiver) {
    const auto found = on_their_way_.find({receiver, round, sender});
    if (found == on_their_way_.end()) {
      violated(text("rank ", receiver, " is handed a message of rank ", sender, " for round ", round,
                    " that is not on its way"));
      return std::nullopt;
    }
    Mass mass = std::move(found->second);
    on_their_way_.erase(found);
    return mass;
  }
  /// The rank has everything of rounds below `whole`.
  void has_all(int rank, Round whole) {
    const auto first = on_their_way_.lower_bound({rank, 0, 0});
    if (first == on_their_way_.end() || std::get<0>(first->first) != rank || std::get<1>(first->first) >= whole) return;
    violated(text("rank ", rank, " goes on without the message of rank ", std::get<2>(first->first), " for round ",
                  std::get<1>(first->first)));
  }
  bool empty() const { return on_their_way_.empty(); }

  /// After each transition.
  void look_at(const std::vector<std::unique_ptr<Rank>>& all);

  std::map<std::pair<Round, int>, FieldVector> models;  // as of their rounds (Kind::mean, Kind::gossip)
  FieldVector total;                                    // first models and all updates
  int at_average = 0;                                   // ranks that have come to the next average of all
  JobFinding& finding;

 private:
  const NeighbourJob& job_;
  std::map<std::tuple<int, Round, int>, Mass> on_their_way_;  // by receiver, round, sender
};

class Rank {
 public:
  Rank(const NeighbourJob& job, SearchedJob& searched, Ledger& ledger, std::vector<std::unique_ptr<Rank>>& all,
       int rank)
      : job_(job),
        ledger_(ledger),
        all_(all),
        rank_(rank),
        application_(searched, rank,
                     {.waits = [this] { return state_ == State::taking || state_ == State::ending; },
                      .look = [this] { look(); }}),
        exchange_(application_.engine(), job.buckets,
                  {.links = [&job, rank](Round round) { return job.links(rank, round); },
                   .graph = job.graph_words,
                   .block = job.block}) {
    for (const BucketSpec& bucket : job.buckets) size_ += bucket.count;
    mine_ = draw();
    add(ledger_.total, mine_);
  }

  void start() { next(); }

  const FieldVector& model() const { return mine_; }
  Field weight() const { return weight_.value(); }
  double approximate_weight() const { return approximate_.value(); }
  Round begun() const { return exchange_.begun(); }
  bool is_over() const { return state_ == State::over; }
  bool has_crashed() const { return state_ == State::crashed; }
  bool has_failed() const { return state_ == State::failed || exchange_.failure(); }
  void average(const FieldVector& mean) {
    mine_ = mean;
    weight_ = {};
    approximate_ = {};
    application_.soon([this] { next(); }, 3000);
  }

 private:
  enum class State { computing, taking, averaging, ending, over, crashed, failed };

  FieldVector draw() { return draw_vector(application_.random(), size_); }
  bool first_averages() const { return job_.average_first; }

  /// The next batch, or the end.
  void next() {
    if (rank_ == job_.crashed_rank && batch_ == job_.crash_batch) {
      state_ = State::crashed;
      return application_.crash();
    }
    if (batch_ == job_.batches[static_cast<std::size_t>(rank_)]) {
      exchange_.drain();
      state_ = State::ending;
      return application_.poll();
    }
    ++batch_;
    state_ = State::computing;
    if (first_averages()) begin();
    application_.step();
    application_.compute([this] { computed(); });
  }

  void computed() {
    if (!first_averages()) {
      step(mine_);
      begin();
    }
    state_ = State::taking;
    application_.poll();
  }

  void step(FieldVector& model) {
    const FieldVector update = draw();
    add(model, update);
    add(ledger_.total, update);
  }

  void begin() {
    const Round round = exchange_.begun();
    const Links links = job_.links(rank_, round);
    if (job_.kind == NeighbourJob::Kind::push_sum) {
      const auto out = static_cast<int>(links.out.size());
      weight_.split(out);
      approximate_.split(out);
      scale(mine_, Field(1) / Field(out + 1));
    } else {
      ledger_.models[{round, rank_}] = mine_;
    }
    const Mass mass{mine_, weight_.value(), approximate_.value()};
    std::size_t at = 0;
    for (int b = 0; b < static_cast<int>(job_.buckets.size()); ++b) {
      const auto bucket = exchange_.outgoing(b);
      for (std::size_t i = 0; i < bucket.size(); i += sizeof(std::uint64_t)) {
        const std::uint64_t value = mass.z[at++].value();
        std::memcpy(bucket.data() + i, &value, sizeof value);
      }
    }
    for (const int peer : links.out) {
      ledger_.sent(round, rank_, peer, mass);
      if (all_[static_cast<std::size_t>(peer)]->begun() < round) ++ledger_.finding.reached[0];
    }
    exchange_.begin(mass.w.value());
    if (job_.kind != NeighbourJob::Kind::push_sum) {
      sum_ = mine_;
      Field own(1);
      for (const Share& share : job_.shares(rank_, round)) own = own - Field(1) / Field(share.parts);
      scale(sum_, own);
    }
    ledger_.look_at(all_);
  }

  void take(const NeighbourMessage& message) {
    const auto sent = ledger_.came(message.round, message.sender, rank_);
    if (!sent) return;
    FieldVector z;
    for (const auto bucket : message.buckets) {
      for (std::size_t i = 0; i < bucket.size(); i += sizeof(std::uint64_t)) {
        std::uint64_t value = 0;
        std::memcpy(&value, bucket.data() + i, sizeof value);
        z.push_back(Field(value));
      }
    }
    if (z != sent->z || message.word != sent->w.value()) {
      ledger_.violated(text("rank ", rank_, " is handed something else than rank ", message.sender,
                            " has sent for round ", message.round));
    }
    if (job_.kind == NeighbourJob::Kind::push_sum) {
      if (message.round + 1 < exchange_.begun()) ++ledger_.finding.reached[1];
      add(mine_, z);
      weight_.add(Field(message.word));
      approximate_.add(sent->weight);
      return;
    }
    for (const Share& share : job_.shares(rank_, exchange_.begun() - 1)) {
      if (share.rank == message.sender) add(sum_, z, Field(1) / Field(share.parts));
    }
  }

  /// The own model has been mixed with those that have come.
  void mixed() {
    ledger_.has_all(rank_, exchange_.whole());
    if (job_.kind != NeighbourJob::Kind::push_sum) {
      check_mean();
      mine_ = sum_;
      if (first_averages() && !draining()) step(mine_);
    }
    ledger_.look_at(all_);
  }

  void check_mean() {
    const Round round = exchange_.begun() - 1;
    FieldVector mean(size_);
    Field own(1);
    for (const Share& share : job_.shares(rank_, round)) {
      const Field part = Field(1) / Field(share.parts);
      own = own - part;
      add(mean, ledger_.models[{round, share.rank}], part);
    }
    add(mean, ledger_.models[{round, rank_}], own);
    if (mean != sum_) {
      ledger_.violated(
          text("rank ", rank_, ": the model after round ", round, " is not the mean of those of its round"));
    }
  }

  bool draining() const {
    return exchange_.begun() > static_cast<Round>(job_.batches[static_cast<std::size_t>(rank_)]);
  }
  bool at_end_of_block() const { return job_.block > 0 && exchange_.begun() % job_.block == 0; }

  /// Rounds of which everything is needed before the next step.
  Round needed() const {
    const Round begun = exchange_.begun();
    return at_end_of_block() ? begun : begun - std::min(begun, job_.overlap);
  }

  void look() {
    const auto add = [this](const NeighbourMessage& message) { take(message); };
    if (state_ == State::taking) {
      const Result<bool> taken = exchange_.try_take(needed(), add);
      if (!taken) return fail(taken.error());
      if (!*taken) return;
      mixed();
      if (at_end_of_block()) return come_to_average();
      return next();
    }
    const auto next = exchange_.try_next(add);
    if (!next) return fail(next.error());
    ledger_.look_at(all_);
    if (*next == NeighbourExchange::Next::begin) {
      begin();
      ++ledger_.finding.reached[without_batches()];
      state_ = State::taking;
      return look();
    }
    if (*next == NeighbourExchange::Next::over) {
      state_ = State::over;
      ledger_.has_all(rank_, exchange_.begun());
    }
  }

  /// Where "rounds of ranks without batches" stands among what is reached; the next two follow in both tables.
  std::size_t without_batches() const { return job_.kind == NeighbourJob::Kind::push_sum ? 2 : 1; }

  void come_to_average() {
    state_ = State::averaging;
    if (++ledger_.at_average < job_.ranks) return;
    ledger_.at_average = 0;
    ++ledger_.finding.reached[without_batches() + 1];
    FieldVector mean(size_);
    for (const auto& rank : all_) add(mean, rank->model());
    if (mean != ledger_.total) {
      ledger_.violated(
          text("the models averaged after round ", exchange_.begun(), " do not sum to the first ones and all updates"));
    }
    scale(mean, Field(1) / Field(job_.ranks));
    for (const auto& rank : all_) rank->average(mean);
    ledger_.look_at(all_);
  }

  void fail(const Error& error) {
    state_ = State::failed;
    ++ledger_.finding.reached[without_batches() + 2];
    if (error.rank != job_.crashed_rank) ledger_.violated(text("rank ", rank_, " fails with: ", error.message));
  }

  const NeighbourJob& job_;
  Ledger& ledger_;
  std::vector<std::unique_ptr<Rank>>& all_;
  const int rank_;
  SimulatedApplication application_;
  NeighbourExchange exchange_;
  State state_ = State::computing;
  std::uint64_t size_ = 0;
  int batch_ = 0;
  FieldVector mine_;  // of push-sum the biased one, z
  PushSumWeight<Field> weight_;
  PushSumWeight<double> approximate_;
  FieldVector sum_;  // of the round under way
};

void Ledger::look_at(const std::vector<std::unique_ptr<Rank>>& all) {
  if (job_.kind != NeighbourJob::Kind::push_sum) return;
  Field weights;
  FieldVector sum(total.size());
  for (const auto& rank : all) {
    weights = weights + rank->weight();
    add(sum, rank->model());
    if (!(rank->approximate_weight() > 0)) violated(text("a rank has the weight ", rank->approximate_weight()));
  }
  for (const auto& [key, mass] : on_their_way_) {
    weights = weights + mass.w;
    add(sum, mass.z);
  }
  if (weights != Field(job_.ranks)) violated("the weights of ranks and messages do not sum to the number of ranks");
  if (sum != total) violated("ranks and messages do not hold the sum of the first models and all updates");
}

void check_end(const NeighbourJob& job, const std::vector<std::unique_ptr<Rank>>& all, Ledger& ledger) {
  auto rounds = static_cast<Round>(*std::ranges::max_element(job.batches));
  if (job.block > 1) rounds = (rounds + job.block - 1) / job.block * job.block;
  FieldVector sum(ledger.total.size());
  for (int rank = 0; rank < job.ranks; ++rank) {
    const Rank& one = *all[static_cast<std::size_t>(rank)];
    if (job.crashed_rank >= 0 && (one.has_crashed() || one.has_failed() || one.is_over())) continue;
    if (!one.is_over()) ledger.violated(text("the job rests, and rank ", rank, " is in round ", one.begun()));
    if (one.begun() != rounds) {
      ledger.violated(text("rank ", rank, " ends after ", one.begun(), " rounds, and the job has ", rounds));
    }
    add(sum, one.model());
  }
  if (job.crashed_rank >= 0) return;
  if (!ledger.empty()) ledger.violated("all ranks have ended, and a message has been handed out to nobody");
  if (sum != ledger.total) ledger.violated("the models at the end do not sum to the first ones and all updates");
}

void run(const NeighbourJob& job, JobFinding& finding) {
  SearchedJob searched(job.machines, job.seed, finding);
  finding.job = job.to_string();
  Ledger ledger(job, finding);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < job.ranks; ++rank) {
    all.push_back(std::make_unique<Rank>(job, searched, ledger, all, rank));
  }
  for (const auto& rank : all) rank->start();
  searched.run();
  if (!finding.violation) check_end(job, all, ledger);
  for (const auto& rank : all) finding.rounds = std::max(finding.rounds, rank->begun());
}

}  // namespace

void run_push_sum_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  run(NeighbourJob::draw(seed, true, limits.ranks), finding);
}

void run_neighbour_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  const NeighbourJob job = NeighbourJob::draw(seed, false, limits.ranks);
  run(job, finding);
  if (job.kind == NeighbourJob::Kind::gossip) finding.reached.back() += finding.rounds;
}

}  // namespace stretto
