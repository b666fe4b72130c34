#include "stretto/collective/rounds/lines/line_rounds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/kernel/combine.h"

namespace stretto {
namespace {

/// So long a line master that says nothing is waited for.
constexpr Duration kSuspectedAfter = std::chrono::seconds(1);

}  // namespace

LineRounds::LineRounds(Engine& engine, const std::string& dimension, const std::vector<BucketSpec>& buckets,
                       const LineOptions& options, std::vector<int> members, NodeModels& models)
    : CollectiveBase(engine, dimension),
      buckets_(buckets),
      options_(options),
      members_(std::move(members)),
      own_(number_of(engine.rank())),
      buffers_(buckets_.size(), static_cast<int>(members_.size())),
      schedule_(line_round_schedule(engine.rank(), members_, engine.size(), buckets_)),
      models_(models),
      average_op_(schedule_.find("average")),
      complete_op_(schedule_.find("complete")),
      agent_(own_, static_cast<int>(members_.size()), options) {
  std::string words = text(dimension, ' ', options.reduce, ' ', options.complete, ' ', options.advance);
  for (const BucketSpec& bucket : buckets_) words += text(' ', bucket.count, ' ', name_of(bucket.type));
  enroll(words);
}

LineRounds::~LineRounds() {
  const Engine::Pause pause(engine_);
  engine_.remove(id_);
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

std::vector<LineResult*> LineRounds::take() {
  const MutexLock lock(mutex_);
  (void)agent_.take();
  taken_ = std::exchange(complete_, {});
  return taken_;
}

void LineRounds::applied(StandingModel& newest) {
  models_.pin(newest);
  StandingModel* before = nullptr;
  {
    const MutexLock lock(mutex_);
    before = std::exchange(newest_, &newest);
    agent_.applied(newest.version);
    for (LineResult* result : std::exchange(taken_, {})) done(*result);
  }
  if (before != nullptr) models_.unpin(*before);
  engine_.doorbell().ring();
}

void LineRounds::stop() {
  stops_.store(true, std::memory_order_release);
  engine_.doorbell().ring();
}

bool LineRounds::at_rest() const {
  const MutexLock lock(mutex_);
  if (is_alone()) return true;
  const bool owes = std::ranges::any_of(results_, [](const auto& result) { return result->brought != nullptr; });
  return !owes && (newest_ == nullptr || contributed_ == newest_->version);
}

int LineRounds::num_results() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(results_.size());
}

/// One of those that use it does so no more.
void LineRounds::done(LineResult& result) {
  if (--result.uses_ > 0) return;
  if (result.brought != nullptr) models_.unpin(*std::exchange(result.brought, nullptr));
}

// ---- the driver thread ----

template <class Hears>
void LineRounds::tell(Hears hears) {
  std::vector<Action> actions;
  {
    const MutexLock lock(mutex_);
    hears(agent_);
    for (const LineAgent::Action& action : agent_.take_actions()) {
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
    case Kind::open: return open(action.what.round, action.model, now);
    case Kind::start:
      for (int member = 0; member < static_cast<int>(members_.size()); ++member) {
        if (member != own_) say(member, kStart);
      }
      return;
    case Kind::complete: waits_since_ = now; return say(action.what.to, kComplete);
  }
}

void LineRounds::open(Round round, StandingModel* model, TimePoint now) {
  LineResult* result = nullptr;
  Duration for_contributions{0}, for_means{0};
  {
    const MutexLock lock(mutex_);
    const auto free = std::ranges::find_if(results_, [](const auto& other) { return other->uses_ == 0; });
    if (free != results_.end()) {
      result = free->get();
    } else {
      result = results_.emplace_back(std::make_unique<LineResult>(buckets_, static_cast<int>(members_.size()))).get();
    }
    result->uses_ = 1;
    result->round = round;
    result->brought = model;
    for_contributions = agent_.patience_for_contributions();
    for_means = agent_.patience_for_means();
  }
  for (RankSet& who : result->who) who = RankSet(engine_.size());
  flights_.emplace_back(round, Flight{.round = LineRound(own_, static_cast<int>(members_.size()), options_,
                                                         for_contributions, for_means, model != nullptr, now),
                                      .result = result});
  engine_.open(id_, round, schedule_, 0);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    std::byte* const data = model == nullptr ? nullptr : model->contribution.bucket(static_cast<int>(i)).data();
    engine_.bind(id_, round, buffers_.model(i), {data, model != nullptr});
    for (int slice = 0; slice < static_cast<int>(members_.size()); ++slice) {
      const std::uint64_t before = part(buckets_[i].count, slice, static_cast<int>(members_.size())).begin;
      std::byte* const sum = result->sums.bucket(static_cast<int>(i)).data() + before * size_of(buckets_[i].type);
      engine_.bind(id_, round, buffers_.mean_of(slice, i), {sum, false});
    }
  }
  if (model != nullptr) header(round, buffers_.model(0)).fresh.insert(engine_.rank());
}

void LineRounds::force(Round round) {
  Flight& forced = flight(round);
  if (forced.over) return;
  if (forced.round.due_at_force() == LineRound::Due::reduce) average(round, forced);
  end(round, forced);
}

void LineRounds::end(Round round, Flight& flight) {
  flight.over = true;
  engine_.trigger(id_, round, complete_op_);
}

/// Sums what has come of this node's slice, in the order of the line, and sends it.
void LineRounds::average(Round round, Flight& flight) {
  const std::vector<int> who = flight.round.contributors().members();
  for (std::size_t i = 0; i < buckets_.size() && !who.empty(); ++i) {
    const BufferId into = buffers_.mean_of(own_, i);
    const Part mine = part(buckets_[i].count, own_, static_cast<int>(members_.size()));
    std::vector<const std::byte*> theirs;
    for (const int node : who) {
      const std::byte* const model =
          engine_.buffer(id_, round, node == own_ ? buffers_.model(i) : buffers_.from(node, i)).data;
      theirs.push_back(node == own_ ? model + mine.begin * size_of(buckets_[i].type) : model);
    }
    std::byte* const sum = engine_.buffer(id_, round, into).data;
    combine(Combination::chain(static_cast<int>(who.size())), buckets_[i].type, ReduceOp::sum, sum, theirs,
            mine.count());
    engine_.bind(id_, round, into, {sum, true});
  }
  RankSet& in_it = flight.result->who[static_cast<std::size_t>(own_)];
  for (const int node : who) in_it.insert(members_[static_cast<std::size_t>(node)]);
  header(round, buffers_.mean_of(own_, 0)).fresh = in_it;
  flight.round.reduced(engine_.clock().now());
  engine_.trigger(id_, round, average_op_);
}

bool LineRounds::poll(TimePoint now) {
  if (!failure_.poll()) return false;
  if (is_alone()) {
    stopped_.store(stops_.load(std::memory_order_acquire), std::memory_order_release);
    return false;
  }
  if (stops_.load(std::memory_order_acquire)) {
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      if (!flights_[i].second.over) end(flights_[i].first, flights_[i].second);
    }
    if (flights_.empty()) stopped_.store(true, std::memory_order_release);
    return false;
  }
  look_at_master(now);
  tell([now](LineAgent& agent) { agent.look(now); });
  bool did = std::exchange(changed_, false);
  while (carry_on(now)) did = true;
  return did;
}

/// Does what is due in a round.
bool LineRounds::carry_on(TimePoint now) {
  for (auto& [round, flight] : flights_) {
    switch (flight.over ? LineRound::Due::nothing : flight.round.due(now)) {
      case LineRound::Due::nothing: continue;
      case LineRound::Due::reduce: average(round, flight); return true;
      case LineRound::Due::complete: end(round, flight); return true;
    }
  }
  return false;
}

/// A line master that lets this node wait, and of whose process nothing comes, is another one's work from now on.
void LineRounds::look_at_master(TimePoint now) {
  std::vector<std::pair<int, bool>> heard;
  {
    const MutexLock lock(mutex_);
    const int master = agent_.line_master();
    const bool waits = master != own_ && agent_.in_flight() == 0 && now - waits_since_ >= kSuspectedAfter;
    if (waits && now - engine_.last_heard(members_[static_cast<std::size_t>(master)]) >= kSuspectedAfter) {
      heard.emplace_back(master, true);
    }
    for (int member = 0; member < master; ++member) {
      if (now - engine_.last_heard(members_[static_cast<std::size_t>(member)]) < kSuspectedAfter) {
        heard.emplace_back(member, false);
      }
    }
  }
  if (heard.empty()) return;
  tell([&heard](LineAgent& agent) {
    for (const auto& [member, suspected] : heard) agent.suspect(member, suspected);
  });
}

TimePoint LineRounds::poll_by() const {
  if (failed() || is_alone()) return TimePoint::never();
  TimePoint by = TimePoint::never();
  {
    const MutexLock lock(mutex_);
    by = agent_.look_by();
    if (agent_.line_master() != own_) by = std::min(by, engine_.clock().now() + kSuspectedAfter);
  }
  for (const auto& [round, flight] : flights_) {
    if (!flight.over) by = std::min(by, flight.round.due_by());
  }
  return by;
}

bool LineRounds::admit(Round round, const Envelope&) {
  if (failed() || stops_.load(std::memory_order_acquire)) return false;
  std::optional<Round> taken;
  tell([&](LineAgent& agent) { taken = agent.admit(round); });
  return taken && engine_.is_open(id_, round);
}

bool LineRounds::call(Round round, OpId, std::uint32_t hook) {
  const LineHook what = LineHook::decode(hook);
  const TimePoint now = engine_.clock().now();
  Flight& here = flight(round);
  changed_ = true;
  if (what.kind == LineHook::Kind::contribution) {
    const bool brings = header(round, buffers_.from(what.node, 0)).fresh.count() > 0;
    (void)here.round.contributed(what.node, brings, now);
  } else {
    here.result->who[static_cast<std::size_t>(what.node)] = header(round, buffers_.mean_of(what.node, 0)).fresh;
    here.round.averaged(what.node, now);
  }
  return true;
}

void LineRounds::completed(Round round) {
  Flight& here = flight(round);
  here.round.completed();
  changed_ = true;
  tell([&](LineAgent& agent) NO_THREAD_SAFETY_ANALYSIS {
    agent.completed(round);
    agent.learn(here.round.contributions_came(), here.round.means_came());
    if (here.result->brought == nullptr && options_.update == ElasticUpdate::carry) return;
    ++here.result->uses_;
    complete_.push_back(here.result);
  });
}

void LineRounds::retired(Round round) {
  LineResult& result = *flight(round).result;
  std::erase_if(flights_, [round](const auto& entry) { return entry.first == round; });
  const MutexLock lock(mutex_);
  done(result);
}

bool LineRounds::hear(int peer, const Envelope& envelope, std::span<const std::byte>) {
  if (envelope.channel != kStart && envelope.channel != kComplete) return false;
  if (stops_.load(std::memory_order_acquire)) return true;
  const TimePoint now = engine_.clock().now();
  tell([&](LineAgent& agent) {
    if (envelope.channel == kStart) return agent.started(envelope.round);
    agent.peer_applied(number_of(peer), envelope.round, now);
  });
  return true;
}

void LineRounds::lost(int peer, const Error& reason) {
  if (!stops_.load(std::memory_order_acquire)) CollectiveBase::lost(peer, reason);
}

void LineRounds::left(int peer, const Error& reason) {
  lost(peer, reason);
}

}  // namespace stretto
