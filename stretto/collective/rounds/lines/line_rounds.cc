#include "stretto/collective/rounds/lines/line_rounds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/kernel/combine.h"

namespace stretto {
LineRounds::LineRounds(Engine& engine, const std::string& dimension, const std::vector<BucketSpec>& buckets,
                       const LineOptions& options, std::vector<int> members, NodeModels& models)
    : CollectiveBase(engine, dimension),
      buckets_(buckets),
      options_(options),
      members_(std::move(members)),
      own_(number_of(engine.rank())),
      buffers_(buckets_.size(), nodes()),
      schedule_(line_round_schedule(engine.rank(), members_, engine.size(), buckets_)),
      models_(models),
      average_op_(schedule_.find("average")),
      complete_op_(schedule_.find("complete")),
      ways_(nodes(), options.rounds_in_flight),
      previous_(buckets_, own_, nodes(), options.missing == Missing::previous),
      codec_(buckets_, own_, nodes(), options.compression),
      say_at_(engine.clock().now() + kSilence),
      agent_(own_, nodes(), options) {
  std::string words = text(dimension, ' ', options.reduce, ' ', options.complete, ' ', options.advance, ' ',
                           options.rounds_in_flight, options.update == ElasticUpdate::paper ? " paper" : "",
                           options.missing == Missing::previous ? " previous" : "",
                           options.compression == Compression::none    ? ""
                           : options.compression == Compression::zeros ? " zeros"
                                                                       : " int8");
  for (const BucketSpec& bucket : buckets_) words += text(' ', bucket.count, ' ', name_of(bucket.type));
  enroll(words);
  engine.set_codec(id_, *this);
}

LineRounds::~LineRounds() {
  {
    const Engine::Pause pause(engine_);
    engine_.remove(id_);
  }
  // The models may outlive the line.
  const MutexLock lock(mutex_);
  for (const auto& [round, flight] : flights_) {
    if (flight.brought != nullptr) models_.unpin(*flight.brought);
  }
  for (const auto& [round, result] : waiting_) release(*result);
  for (LineResult* const result : taken_) release(*result);
  if (newest_ != nullptr) models_.unpin(*newest_);
}

int LineRounds::number_of(int rank) const {
  return static_cast<int>(std::ranges::find(members_, rank) - members_.begin());
}

LineRounds::Flight& LineRounds::flight(Round round) {
  const auto found = std::ranges::find(flights_, round, &std::pair<Round, Flight>::first);
  STRETTO_CHECK(found != flights_.end(), "round ", round, " is not under way");
  return found->second;
}

// ---- the application's thread ----

bool LineRounds::may_take() const {
  const MutexLock lock(mutex_);
  return agent_.may_take();
}

std::vector<LineResult*> LineRounds::take() {
  const MutexLock lock(mutex_);
  for (const Round round : agent_.take()) {
    const auto found = waiting_.find(round);
    if (found == waiting_.end()) continue;  // nothing of it moves the model
    found->second->taken_ = true;
    taken_.push_back(found->second);
    waiting_.erase(found);
  }
  return taken_;
}

void LineRounds::applied(StandingModel& newest, std::uint64_t steps) {
  models_.pin(newest);
  StandingModel* before = nullptr;
  const TimePoint now = engine_.clock().now();
  steps_ += steps;
  {
    const MutexLock lock(mutex_);
    before = std::exchange(newest_, &newest);
    agent_.applied(newest.version);
    if (!taken_.empty()) {
      const std::uint64_t between = std::exchange(steps_, 0);
      if (counts_.applied > 0) counts_.steps_between += between;
    }
    for (LineResult* result : std::exchange(taken_, {})) {
      ++counts_.applied;
      if (result->published) {
        ++counts_.contributed;
        counts_.to_apply += now - *result->published;
      }
      release(*result);
    }
  }
  if (before != nullptr) models_.unpin(*before);
  engine_.doorbell().ring();
}

void LineRounds::stop() {
  stops_.store(true, std::memory_order_release);
  engine_.doorbell().ring();
}

bool LineRounds::has_given(std::uint64_t version) const {
  const MutexLock lock(mutex_);
  if (is_alone() || newest_ == nullptr) return true;
  return contributed_ > version || (contributed_ == version && !agent_.owes());
}

int LineRounds::num_results() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(results_.size());
}

GridCounts LineRounds::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

std::string LineRounds::take_line() {
  const MutexLock lock(mutex_);
  return std::exchange(line_, {});
}

/// The application does not use it any more.
void LineRounds::release(LineResult& result) {
  if (result.brought != nullptr) models_.unpin(*std::exchange(result.brought, nullptr));
  --result.uses_;
}

// ---- the driver thread ----

void LineRounds::tell(FunctionRef<void(LineAgent&)> hears) {
  end_what_is_taken();
  std::vector<Action> actions;
  {
    const MutexLock lock(mutex_);
    Round next = agent_.next();
    hears(agent_);
    for (const LineAgent::Action& action : agent_.take_actions()) {
      if (action.kind == LineAgent::Action::Kind::complete && is_told_later(action.to)) continue;
      if (action.kind == LineAgent::Action::Kind::open) {
        ++counts_.opened;
        counts_.skipped += action.round - std::exchange(next, action.round + 1);
      }
      StandingModel* const model = action.version > 0 ? newest_ : nullptr;
      if (model != nullptr) {
        STRETTO_CHECK(model->version == action.version, "version ", action.version, " of the model is to be sent, and ",
                      model->version, " is the newest");
        models_.pin(*model);
        contributed_ = model->version;
      }
      actions.push_back({action, model});
    }
  }
  const TimePoint now = engine_.clock().now();
  for (const Action& action : actions) perform(action, now);
}

void LineRounds::perform(const Action& action, TimePoint now) {
  using Kind = LineAgent::Action::Kind;
  changed_ = true;
  const auto say = [&](int member, Control what) {
    engine_.send_control(id_, members_[static_cast<std::size_t>(member)], what, action.what.round, 0, {});
  };
  switch (action.what.kind) {
    case Kind::force: return force(action.what.round);
    case Kind::drop: return drop(action.what.round);
    case Kind::open: return open(action.what.round, action.model, now);
    case Kind::start:
      for (int member = 0; member < nodes(); ++member) {
        // The contribution to this round will tell it, or to a later one, as soon as it may be sent.
        if (member != own_ && !ways_.is_busy(member)) say(member, kStart);
      }
      return;
    case Kind::complete: waits_since_ = now; return say(action.what.to, kComplete);
  }
}

void LineRounds::open(Round round, StandingModel* model, TimePoint now) {
  Duration for_contributions{0}, for_means{0};
  say_at_ = now + kSilence;
  {
    const MutexLock lock(mutex_);
    line_.clear();
    for_contributions = agent_.patience_for_contributions();
    for_means = agent_.patience_for_means();
  }
  flights_.emplace_back(
      round, Flight{.round = LineRound(own_, nodes(), options_, for_contributions, for_means, model != nullptr, now),
                    .brought = model,
                    .ways = std::vector<OpId>(members_.size(), kNoOp)});
  ways_.open(round);
  engine_.open(id_, round, schedule_, 0);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    std::byte* const data = model == nullptr ? nullptr : model->contribution.bucket(static_cast<int>(i)).data();
    engine_.bind(id_, round, buffers_.model(i), {data, model != nullptr});
  }
  if (model != nullptr) header(round, buffers_.model(0)).fresh.insert(engine_.rank());
}

/// Gives a round memory. Not before the engine begins with it: a node that wakes opens many at once, which force each
/// other.
void LineRounds::begin(Round round, Flight& flight) {
  {
    const MutexLock lock(mutex_);
    auto free = std::ranges::find_if(results_, [](const auto& other) { return other->uses_ == 0; });
    if (free == results_.end()) free = results_.insert(free, std::make_unique<LineResult>(buckets_, nodes()));
    flight.result = free->get();
    flight.result->uses_ = 1;
    flight.result->round = round;
    flight.result->taken_ = false;
    flight.result->published.reset();
    for (RankSet& who : flight.result->who) who = RankSet(engine_.size());
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (int slice = 0; slice < nodes(); ++slice) {
      const std::uint64_t before = part(buckets_[i].count, slice, nodes()).begin;
      std::byte* const sum =
          flight.result->sums.bucket(static_cast<int>(i)).data() + before * size_of(buckets_[i].type);
      engine_.bind(id_, round, buffers_.mean_of(slice, i), {sum, false});
    }
  }
}

void LineRounds::force(Round round) {
  Flight& forced = flight(round);
  const bool averages = forced.result != nullptr && forced.round.due_at_force() == LineRound::Due::reduce;
  if (averages) average(round, forced);
  conclude(round, forced, &GridCounts::forced);
  end(round, forced);
}

/// The round is complete: it waits for the application, if it has something for it.
void LineRounds::conclude(Round round, Flight& flight, std::uint64_t GridCounts::*count) {
  flight.round.completed();
  const MutexLock lock(mutex_);
  ++(counts_.*count);
  agent_.completed(round);
  const bool moves = flight.brought != nullptr || options_.update == ElasticUpdate::paper;
  if (!moves || flight.result == nullptr) return;
  if (flight.brought != nullptr) flight.result->published = flight.brought->published;
  if (flight.brought != nullptr && options_.update == ElasticUpdate::carry) {
    models_.pin(*flight.brought);
    flight.result->brought = flight.brought;
  }
  ++flight.result->uses_;
  waiting_.emplace(round, flight.result);
  let_go_of_model(round, flight);
}

void LineRounds::drop(Round round) {
  const MutexLock lock(mutex_);
  const auto found = waiting_.find(round);
  if (found == waiting_.end()) return;
  ++counts_.abandoned;
  release(*found->second);
  waiting_.erase(found);
}

void LineRounds::end(Round round, Flight& flight) {
  flight.over = true;
  ways_.end(round);
  let_go_of_model(round, flight);
  {
    const MutexLock lock(mutex_);
    agent_.learn(flight.round.contributions_came(), flight.round.means_came());
  }
  engine_.trigger(id_, round, complete_op_);
}

/// Ends rounds that are complete, and not the application's to take any more.
void LineRounds::end_what_is_taken() {
  for (auto& [round, flight] : flights_) {
    if (flight.over || !flight.round.is_complete() || ways_.waits(round)) continue;
    bool waits = false;
    {
      const MutexLock lock(mutex_);
      waits = waiting_.contains(round);
    }
    if (!waits) end(round, flight);
  }
}

/// Once a round is complete, and all of it has been sent that will be, its model may be written to.
void LineRounds::let_go_of_model(Round round, Flight& flight) {
  const bool is_over = flight.over || flight.round.is_complete();
  if (flight.brought != nullptr && is_over && !ways_.sends(round))
    models_.unpin(*std::exchange(flight.brought, nullptr));
}

bool LineRounds::may_send(Round round, Flight& flight, int member, OpId way) {
  flight.ways[static_cast<std::size_t>(member)] = way;
  return ways_.may_send(round, member);
}

/// A contribution or a mean has left for `member`: the round that waited behind it may go.
void LineRounds::sent(Round round, Flight& flight, int member) {
  const std::optional<Round> next = ways_.sent(round, member);
  let_go_of_model(round, flight);
  if (!ways_.is_busy(member)) tell([member](LineAgent& agent) { agent.reached(member); });
  if (!next) return;
  Flight& goes = this->flight(*next);
  engine_.finish(id_, *next, goes.ways[static_cast<std::size_t>(member)]);
}

/// Sums what has come of this node's slice, in the order of the line, and sends it.
void LineRounds::average(Round round, Flight& flight) {
  const RankSet& brought = flight.round.contributors();
  std::vector<int> who;
  for (int node = 0; node < nodes(); ++node) {
    if (brought.contains(node) || previous_.has(node)) who.push_back(node);
  }
  for (std::size_t i = 0; i < buckets_.size() && !who.empty(); ++i) {
    const BufferId into = buffers_.mean_of(own_, i);
    const Part mine = part(buckets_[i].count, own_, nodes());
    std::vector<const std::byte*> theirs;
    for (const int node : who) {
      if (!brought.contains(node)) {
        theirs.push_back(previous_.of(node, i));
        continue;
      }
      const std::byte* const model =
          engine_.buffer(id_, round, node == own_ ? buffers_.model(i) : buffers_.from(node, i)).data;
      theirs.push_back(node == own_ ? model + mine.begin * size_of(buckets_[i].type) : model);
    }
    std::byte* const sum = engine_.buffer(id_, round, into).data;
    combine(Combination::chain(static_cast<int>(who.size())), buckets_[i].type, ReduceOp::sum, sum, theirs,
            mine.count());
    if (options_.compression == Compression::int8) {
      // A sum would jump whenever the number of those in it changes, and differences with it.
      const auto numbers = std::span(reinterpret_cast<float*>(sum), mine.count());
      for (float& number : numbers) number /= static_cast<float>(who.size());
    }
    engine_.bind(id_, round, into, {sum, true});
  }
  RankSet& in_it = flight.result->who[static_cast<std::size_t>(own_)];
  for (const int node : who) in_it.insert(members_[static_cast<std::size_t>(node)]);
  header(round, buffers_.mean_of(own_, 0)).fresh = in_it;
  flight.round.reduced(engine_.clock().now());
  ways_.average(round);
  engine_.trigger(id_, round, average_op_);
  const auto come = static_cast<std::uint64_t>(flight.round.come().count());
  const auto fresh = static_cast<std::uint64_t>(brought.count());
  const MutexLock lock(mutex_);
  counts_.fresh += fresh;
  counts_.null += come - fresh;
  counts_.missing += members_.size() - come;
  counts_.previous += who.size() - fresh;
}

}  // namespace stretto
