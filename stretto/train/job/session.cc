#include "stretto/train/job/session.h"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <utility>

#include "stretto/base/version.h"
#include "stretto/train/job/members/run_members.h"
#include "stretto/train/ordering/model_collectives.h"
#include "stretto/train/recipes/ordered_gradients.h"
#include "stretto/train/replica/arithmetic.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

/// After so long at most a line that has come up while a rank waits is told.
constexpr Duration kWaitsLong = std::chrono::seconds(1);  // then it says so, where members change
constexpr Duration kTellsWithin = std::chrono::seconds(1);

constexpr Duration kLookAtSessionsEvery = std::chrono::milliseconds(1);  // of a rank that ends, at its other sessions
constexpr Duration kAnswersWithin = std::chrono::milliseconds(200);

/// The first line in which two texts differ, of each; of the shorter one nothing where it ends before.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a), lines_b(b);
  std::string line_a, line_b;
  do {
    line_a.clear();
    line_b.clear();
    std::getline(lines_a, line_a);
    std::getline(lines_b, line_b);
  } while (line_a == line_b && (lines_a || lines_b));
  return {line_a, line_b};
}

}  // namespace

Session::Session(RankContext& context, Replica& replica, RoundListener& listener, SessionOptions options)
    : options_(std::move(options)),
      context_(context),
      sessions_(context.part<RankSessions>()),
      replica_(replica),
      listener_(listener) {
  if (context.changes() != nullptr) alone_ = std::make_unique<WorldOfOne>(changes().clock());
  come_in();
  if (context.changes() == nullptr) {
    recipe_ = make_recipe(world());
    of_this_world_ = true;
    return;
  }
  // In a world of others the recipe is made when this rank has what they have, in the order in which they make theirs.
  account_ = std::make_unique<MemberAccount>(changes(), listener, options_.recipe->across_worlds);
  own_lines_ = options_.recipe->own_lines && changes().some_may_meet();
  recipe_ = make_recipe(alone_->world());
}

Session::~Session() {
  if (forked()) {  // collectives cannot be taken from an engine whose memory is not there
    world().keep(std::move(recipe_));
    world().keep(std::move(meeting_));
    (void)account_.release();  // the thread that asks it is not there, and may have held its lock
    (void)lines_.release();    // likewise
    (void)giver_.release();
    return;
  }
  giver_.reset();
  lines_.reset();
  account_.reset();  // nobody asks what recipe_ holds from now on
  if (by_layer_) replica_.reads_by_bucket()->on_bucket_read(nullptr);
  if (ModelCollectives* sums = replica_.model_collectives()) sums->sum_by(nullptr);
  if (interrupted_) stop_others({Errc::aborted, "an exception has ended this rank's part", rank()});
  if (!rounds_over_) {
    sessions_.remove(*this);
    if (of_this_world_) {  // the engine of one before stands still
      for (auto& collective : recipe_->collectives()) world().keep(std::move(collective));
    }
  }
  if (meeting_->interrupted()) world().keep(meeting_);
  if (alone_ != nullptr) meeting_.reset();  // which may be over its engine
}

RecipeContext Session::recipe_context(World& world) {
  RoundListener& listener = account_ != nullptr ? *account_ : listener_;
  RecipeContext context{replica_, world.engine(), *meeting_, listener, options_.recipe_options};
  if (account_ != nullptr) {
    RecipeOptions& options = context.options;
    options.members_change = true;
    const bool goes_on = averages() || (account_->has_begun() && of_this_world_);
    options.rounds_before = goes_on ? account_->handed() : changes().view().complete;
    options.batches_before += account_->batches();
    options.policy = options_.policy_of(world.size());
    options.seats = std::min(options.seats, world.size());
    if (options.local_steps > PartialOptions::kMostBatchesOfAChangingMember) {
      options.local_steps = kMostStepsWhereMembersChange;
    }
    options.places = changes().most();
    options.place = changes().place();
    options.own_lines = own_lines_;
  }
  return context;
}

std::unique_ptr<Recipe> Session::make_recipe(World& world) {
  return options_.recipe->make(recipe_context(world));
}

void Session::begin(std::vector<Fingerprint> fingerprints) {
  require_no_failure("begin");
  require_no_circle();
  if (ModelCollectives* sums = replica_.model_collectives()) sum_for(*sums);
  fingerprints.insert(fingerprints.begin(), {"version", text("stretto ", stretto_version(), ", ", replica_.library())});
  fingerprints.push_back({"model", replica_.model_description()});
  fingerprints.push_back({"optimizer", replica_.optimizer_description()});
  fingerprints_ = std::move(fingerprints);
  ends_with([&] {
    if (account_ == nullptr) {
      compare_fingerprints();
    } else if (!begin_in_world()) {
      follow();
    }
    begun_ = true;
    rounds_over_ = false;  // another rank may begin the first while this one still takes the weights
    if (account_ != nullptr) return;
    meeting_->broadcast_weights(*driver_);
    meeting_->broadcast_optimizer(*driver_);
  });
  sessions_.add(*this);
}

void Session::compare_fingerprints() {
  std::vector<std::uint64_t> mine;
  const bool is_under_way = account_ != nullptr && changes().view().complete > 0;
  for (const Fingerprint& fingerprint : fingerprints_) {
    mine.push_back(is_under_way && fingerprint.of_beginning ? 0 : Hash64::of(fingerprint.text));
  }
  mine.push_back(Hash64::of(Arithmetic::here(replica_.library_code()).without_host()));
  if (!meeting_->differing_rank(*driver_, {Hash64::of(std::as_bytes(std::span(mine)))})) return;
  auto all = meeting_->gather_lists(*driver_, mine);
  for (auto& theirs : all) theirs.resize(mine.size());  // another version may have others
  const std::size_t right = account_ != nullptr ? static_cast<std::size_t>(holder()) : 0;
  std::string differs;  // of this rank, where members change; else of any
  bool all_fit = true;
  for (std::size_t i = 0; i < fingerprints_.size() && (account_ == nullptr || differs.empty()); ++i) {
    const auto is_other = [&](const std::vector<std::uint64_t>& theirs) { return theirs[i] != all[right][i]; };
    if (std::ranges::none_of(all, is_other)) continue;
    all_fit = false;
    const auto texts = meeting_->gather_texts(*driver_, fingerprints_[i].text);  // every rank has seen the same
    for (std::size_t rank = 0; rank < all.size() && differs.empty(); ++rank) {
      // The others go on without a rank that does not fit: where members change it alone says so.
      if (!is_other(all[rank]) || (account_ != nullptr && std::cmp_not_equal(rank, this->rank()))) continue;
      const auto [theirs, of_right] = first_difference(texts[rank], texts[right]);
      const std::string one = name_of(static_cast<int>(rank)), other = name_of(static_cast<int>(right));
      differs = text(one, " differs from ", other, " in its ", fingerprints_[i].what, ": on ", one, " it is '", theirs,
                     "', on ", other, " '", of_right, "'");
    }
  }
  if (!differs.empty()) throw UsageError(differs);
  if (all_fit) compare_arithmetic(all, fingerprints_.size());  // else one that does not fit is about to go
}

std::string Session::fingerprint_lines() const {
  std::string lines;
  for (const Fingerprint& fingerprint : fingerprints_) {
    if (!fingerprint.of_beginning) lines += text(fingerprint.what, ' ', fingerprint.text, '\n');
  }
  return lines;
}

void Session::compare_with_giver(const std::string& fingerprints) {
  const auto [mine, theirs] = first_difference(fingerprint_lines(), fingerprints);
  if (mine == theirs) return;
  throw UsageError(text(name_of(0), " differs from ", name_of(1), ": on ", name_of(0), " it is '", mine, "', on ",
                        name_of(1), " '", theirs, "'"));
}

void Session::compare_arithmetic(const std::vector<std::vector<std::uint64_t>>& all, std::size_t number) {
  const auto differs = [&](const std::vector<std::uint64_t>& theirs) { return theirs[number] != all[0][number]; };
  if (std::ranges::none_of(all, differs)) return;
  std::vector<Arithmetic> ranks;
  for (const std::string& of : meeting_->gather_texts(*driver_, Arithmetic::here(replica_.library_code()).encoded())) {
    ranks.push_back(Arithmetic::decoded(of));
  }
  why_parted_ = why_replicas_have_parted(ranks);
  const std::string line = why_replicas_may_part(ranks);
  if (rank() == 0 && !line.empty() && options_.tell) options_.tell(0, line);
}

void Session::sum_for(ModelCollectives& sums) {
  if (recipe_->ordered() == nullptr) {
    throw UsageError(text("a model that sums over the ranks while it computes, under algorithm ", options_.recipe->name,
                          ": expected sync with an ordering, as in --ordering topo: every rank has to take part in "
                          "each of its sums"));
  }
  sums.sum_by([this](const TensorDescription& tensor, std::span<std::byte> data) {
    require_no_failure("a sum inside the model");
    insist([&](TimePoint deadline) { return recipe_->ordered()->sum_in_pass(tensor, data, *driver_, deadline); });
  });
}

void Session::begin_step(std::uint64_t samples, Duration waited) {
  require_no_failure("begin_step");
  if (account_ != nullptr) meeting_->forget_given();
  if (averages() && !account_->pending()) since_full_ = {.batches = 0, .samples = 0};
  step_ = {.samples = samples, .waited = waited};
  recipe_->begin_step(step_);
  in_step_ = true;
}

void Session::set_samples(std::uint64_t samples) {
  require_no_failure("set_samples");
  step_.samples = samples;
}

void Session::set_batches(std::uint64_t batches) {
  require_no_failure("set_batches");
  if (batches == 0 || batches > PartialOptions::kMostBatchesOfAChangingMember) {
    throw UsageError(
        text("a step of ", batches, " batches: expected 1 to ", PartialOptions::kMostBatchesOfAChangingMember));
  }
  if (batches != 1 && !recipe_->takes_several_batches()) {
    throw UsageError(
        text("a step of ", batches, " batches under an algorithm that counts each rank's steps: expected 1"));
  }
  step_.batches = batches;
}

void Session::deposit(Duration computed) {
  require_no_failure("deposit");
  step_.computed = computed;
  recipe_->deposit(step_);
  since_full_.add(step_);
  if (account_ != nullptr) account_->deposited(step_.batches);
  in_step_ = false;
}

void Session::end_backward(const std::string& where) {
  require_no_failure("end_backward");
  const auto non_finite = recipe_->end_backward();
  if (!non_finite) return;
  const std::string reason = text("the gradient of ", *non_finite, " is not finite on ", name_of(rank()), ", ", where,
                                  "; a smaller learning rate may help");
  abort(reason);
  throw Failure({Errc::aborted, reason, rank()});
}

void Session::pass() {
  require_no_failure("pass");
  if (rounds_over_ || drained_)
    throw UsageError("pass() after finish(): this rank has said that it has no more batches");
  if (!in_step_) {
    throw UsageError(
        "pass() where no batch is under way: expected once a step, after begin_step(), instead of deposit()");
  }
  bring_weights();  // which the next push asks for
  recipe_->pass(step_);
  since_full_.waited += step_.waited;
  in_step_ = false;
}

void Session::bring_by_layer() {
  WeightsByBucket* const weights = recipe_->weights_by_bucket();
  ReadsByBucket* const reads = replica_.reads_by_bucket();
  by_layer_ = reads != nullptr && weights != nullptr && weights->bring_by_bucket();
  if (by_layer_) reads->on_bucket_read([this](int bucket) { bring(bucket); });
}

void Session::bring(int bucket) {
  require_no_failure("bring_weights");
  const TimePoint begin = driver_->clock().now();
  insist(
      [this, bucket](TimePoint deadline) { return recipe_->weights_by_bucket()->bring(bucket, *driver_, deadline); });
  waited_for_layers_ += driver_->clock().now() - begin;
}

void Session::bring_weights() {
  if (!by_layer_) return;
  for (int bucket = 0; bucket < static_cast<int>(replica_.buckets().size()); ++bucket) bring(bucket);
}

int Session::take() {
  require_no_failure("take");
  const Round before = recipe_->rounds();
  if (giver_ != nullptr) giver_->at_boundary([this] { return given_state(); });
  // Where it has gone to others they have averaged their models: the next round of all is not due yet.
  const bool has_met = own_lines_ && is_awaited() && ends_with([this] { return follow(true); });
  if (!has_met) insist([this](TimePoint deadline) { return recipe_->advance(*driver_, deadline); });
  return static_cast<int>(recipe_->rounds() - before);
}

int Session::finish(Others others) {
  require_no_failure("finish");
  const Round before = recipe_->rounds();
  if (others == Others::go_on) require_in_step();
  if (others == Others::end) insist([this](TimePoint deadline) { return drain_all(deadline); });
  const auto finishes = [this](TimePoint deadline) { return recipe_->finish(*driver_, deadline); };
  leave_if_wished();
  may_leave_ = account_ != nullptr;
  const bool over = insist(finishes, AfterChange::not_again);
  leave_if_wished();
  may_leave_ = false;
  if (over) rounds_are_over();
  return static_cast<int>(recipe_->rounds() - before);
}

void Session::require_in_step() const {
  if (ranks() == 1) return;
  for (const BatchSource* other : sessions_.batch_sources()) {
    const std::string algorithm = other->parts_ranks();
    if (other == this || algorithm.empty()) continue;
    throw UsageError(text("Others::go_on beside an optimizer with algorithm '", algorithm,
                          "': a rank that is behind there could wait for one that waits here; expected sync or local"));
  }
}

/// Refuses a deadlock of two sessions: in one a late rank waits for ranks ahead of it, which wait for that rank in the
/// other.
void Session::require_no_circle() const {
  const auto [mine, here] = waits();
  for (const BatchSource* other : sessions_.batch_sources()) {
    const auto [theirs, there] = other->waits();
    const bool late_in_mine = here.for_ranks_ahead && there.for_ranks_behind;
    const bool late_in_theirs = there.for_ranks_ahead && here.for_ranks_behind;
    if (!late_in_mine && !late_in_theirs) continue;
    throw UsageError(text("algorithm '", mine, "' beside an optimizer with '", theirs, "': a late rank could wait in ",
                          late_in_mine ? mine : theirs, " for ranks that wait for it in ", late_in_mine ? theirs : mine,
                          "; expected sync beside it, or two under which no rank misses rounds, as local and wagma"));
  }
}

bool Session::finish_within(Duration limit) {
  require_no_failure("finish");
  return ends_with([&] {
    const TimePoint deadline = driver_->deadline(limit);
    Result<int> rounds = drain_all(deadline);
    if (rounds) rounds = recipe_->finish(*driver_, deadline);
    if (!rounds && rounds.error().code != Errc::timeout) throw Failure(rounds.error());
    if (rounds) rounds_are_over();
    return rounds_over_;
  });
}

Result<int> Session::drain_all(TimePoint deadline) {
  const auto& sources = sessions_.batch_sources();
  while (sources.size() > 1) {
    for (std::size_t i = 0; i < sources.size(); ++i) {  // a round that is applied may end one
      if (sources[i] != this) sources[i]->drain();
    }
    const Result<bool> over = recipe_->drain(*driver_);
    if (!over) return over.error();
    if (*over) break;
    if (driver_->clock().now() >= deadline) return Error{Errc::timeout, who_is_missing(), -1};
    driver_->wait([] { return false; }, std::min(deadline, driver_->deadline(kLookAtSessionsEvery)));
  }
  return 0;
}

Session::Comparison Session::compare(std::uint64_t deposits) {
  const ReplicaChecksum mine = replica_.checksum();
  std::array<std::uint64_t, 3 + OwnCounts::kNumbers> numbers{
      mine.parameters, recipe_->averages_gradients() ? mine.optimizer : 0, deposits};
  if (rounds_over_) std::ranges::copy(recipe_->own_counts().numbers(), numbers.begin() + 3);
  Comparison found;
  const auto all = meeting().gather_lists(driver(), numbers);
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto& theirs = all[static_cast<std::size_t>(rank)];
    const bool in_parameters = theirs[0] != all[0][0];
    if (in_parameters || theirs[1] != all[0][1]) found.differ.push_back({rank, in_parameters});
    found.deposits += theirs[2];
    found.counts.add(OwnCounts::of(std::span(theirs).subspan(3).first<OwnCounts::kNumbers>()));
  }
  return found;
}

void Session::rounds_are_over() {
  rounds_over_ = true;
  sessions_.remove(*this);
}

void Session::drain() {
  drained_ = true;
  if (!failed() && !failure())
    (void)recipe_->drain(*driver_);  // a failure is this session's, and comes with its next call
}

std::string Session::parts_ranks() const {
  const bool in_step = options_.recipe_options.policy.kind == Policy::Kind::full && !options_.recipe->parts_ranks;
  return in_step ? "" : std::string(options_.recipe->name);
}

std::pair<std::string, StepWaits> Session::waits() const {
  return {std::string(options_.recipe->name), recipe_->waits()};
}

std::string Session::who_is_missing() {
  std::string all;
  for (const auto& collective : recipe_->collectives()) {
    all += (all.empty() ? "" : "; ") + collective->who_is_missing(*driver_, kAnswersWithin);
  }
  return all;
}

std::optional<Error> Session::failure() const {
  for (const auto& collective : recipe_->collectives()) {
    if (auto failure = collective->failure()) return failure;
  }
  return std::nullopt;
}

void Session::stop_others(const Error& why) {
  if (account_ == nullptr) return abort(why);
  fail();
  interrupted_ = false;
}

void Session::abort(const Error& why) {
  world().require_own_process();
  for (const auto& collective : recipe_->collectives()) collective->abort(*uninterrupted_, why);
  meeting_->abort(*uninterrupted_, why);
  fail();
  interrupted_ = false;
}

void Session::look() {
  if (may_leave_) say_whether_leaving();
  if (account_ != nullptr) {
    changes().require_master();
    if (driver_->clock().now() - call_began_ >= kWaitsLong) changes().waits(true);
  }
  if (averages() && changes().changing()) throw Failure({Errc::members_changed, "the members of the job change", -1});
  if (!options_.look) return;
  try {
    options_.look();
  } catch (...) {
    interrupted_ = true;
    fail();
    throw;
  }
}

void Session::fail() {
  failed_ = true;
  sessions_.remove(*this);
}

void Session::require_no_failure(const char* call) const {
  world().require_own_process();
  if (failed()) throw UsageError(text(call, "() after a failure: this session is over; expected abort() or nothing"));
}

Result<int> Session::unless_thrown(FunctionRef<Result<int>(TimePoint)> call, TimePoint deadline) {
  try {
    return call(deadline);
  } catch (const Failure& failure) {
    if (!averages() || !tells_of_change(failure.error())) throw;
    return failure.error();
  }
}

bool Session::insist(FunctionRef<Result<int>(TimePoint)> call, AfterChange after) {
  return ends_with([&] {
    TimePoint silent_until = driver_->deadline(options_.silence);
    bool over = false;  // the call has returned, but a change of members has cut off what ranks do together in it
    for (;;) {
      TimePoint deadline = silent_until;
      if (recipe_->ordered() != nullptr) deadline = std::min(deadline, driver_->deadline(kTellsWithin));
      const Result<int> rounds = unless_thrown(call, deadline);
      for (const std::string& line : recipe_->take_lines()) {
        if (options_.tell) options_.tell(recipe_->rounds(), line);
      }
      if (rounds && (account_ == nullptr || (own_lines_ && !of_this_world_) || !meeting_->interrupted())) return true;
      if (rounds) {
        over = true;
        if (!averages()) continue;  // the engine is frozen: takes what else counts
      }
      const bool changed =
          rounds || rounds.error().code == Errc::members_changed || (averages() && tells_of_change(rounds.error()));
      if (changed && account_ != nullptr) {
        follow();
        if (after == AfterChange::not_again || over || averages()) return after == AfterChange::again;
        silent_until = driver_->deadline(options_.silence);
        continue;
      }
      if (rounds.error().code != Errc::timeout) throw Failure(rounds.error());
      if (const auto failed = failure()) throw Failure(*failed);  // of a collective that this call has not come to
      if (driver_->clock().now() < silent_until) continue;
      if (options_.tell) options_.tell(recipe_->rounds(), rounds.error().message);
      silent_until = driver_->deadline(options_.silence);
    }
  });
}

}  // namespace stretto
