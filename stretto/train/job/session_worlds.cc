#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/changes.h"
#include "stretto/membership/views/average_weights.h"
#include "stretto/train/job/session.h"
#include "stretto/train/recipes/full_rounds.h"

// How a session goes from world to world (docs/protocol.md, rules 12 to 17), and what all ranks do together in one.

namespace stretto {
namespace {

constexpr Duration kLooksAtChangeEvery = std::chrono::milliseconds(1);
constexpr char kGiven = 'g', kNotGiven = 'n';  // behind what a loop has beside its model
constexpr Duration kVirtualTimeout = std::chrono::hours(24 * 365 * 100);

MeetingOptions meeting_options(const SessionOptions& options) {
  MeetingOptions meeting{.silence = options.silence};
  if (options.virtual_time) {
    meeting.timeout = kVirtualTimeout;
    meeting.look_every = options.silence;
  }
  if (options.tell) meeting.tell = [tell = options.tell](const std::string& line) { tell(0, line); };
  return meeting;
}

/// By rank, whether it has said that its model is its own.
std::vector<bool> whose_are_own(const std::vector<Meeting::Numbers>& said) {
  std::vector<bool> own;
  for (const Meeting::Numbers& numbers : said) own.push_back(numbers[1] != 0);
  return own;
}

}  // namespace

int Session::holder() const {
  const View& view = in_world_;
  const auto holds = [&](const PlacedMember& member) { return member.held == static_cast<RoundsHeld>(view.complete); };
  const auto holder = std::ranges::find_if(view.members, holds);
  STRETTO_CHECK(holder != view.members.end(), "nobody holds the ", view.complete, " rounds before epoch ", view.epoch);
  return static_cast<int>(holder - view.members.begin());
}

void Session::come_in() {
  uninterrupted_ = &world().driver(options_.progress_by);
  const bool looks = options_.look || context_.changes() != nullptr;
  driver_.emplace(*uninterrupted_, looks ? [this] { look(); } : std::function<void()>());
  if (meeting_ != nullptr) before_.push_back(std::move(meeting_));
  // One that is given a member's state meets nobody before it enters the world of all.
  World& of = context_.changes() != nullptr && context_.changes()->is_given_beside() ? alone_->world() : world();
  meeting_ = std::make_shared<Meeting>(of.engine(), replica_, meeting_options(options_));
  if (context_.changes() != nullptr) in_world_ = view();
  of_this_world_ = false;
}

bool Session::follow(bool if_awaited) {
  if (giver_ != nullptr) giver_->stays(given_state());
  do {
    const Traffic sent = world().engine().traffic();
    if (!if_awaited) {
      changes().enter();
    } else if (!changes().enter_if_awaited()) {
      if (giver_ != nullptr) giver_->goes_on();
      return false;
    }
    sent_before_.add(sent);
    account_->entered();
    if (averages() && of_this_world_) recipe_->stand_still();
    come_in();
    call_began_ = driver_->clock().now();
  } while (!begin_in_world());
  if (giver_ != nullptr) giver_->goes_on();
  return true;
}

bool Session::is_awaited() {
  if (!changes().changing()) return false;
  const auto newest = changes().newest_view(0, Duration(0));
  return (newest->epoch > view().epoch || !of_this_world_) && newest->is_awaited();
}

bool Session::begin_in_world() {
  if (changes().is_given_beside()) return learn_beside();
  const Round before = changes().view().complete;
  std::unique_ptr<Recipe> next;
  try {
    const auto said = meeting_->gather(*driver_, {meetings_, weighs_ ? 1u : 0u, has_state_ ? 1u : 0u});
    for (std::size_t rank = 0; rank < said.size(); ++rank) {
      RoundsHeld& held = in_world_.members[rank].held;
      if (held == kNoModel && said[rank][2] != 0) held = static_cast<RoundsHeld>(before);
    }
    // A rank without the model may get it while the others go on, as one that is late. Where models are averaged, or
    // ranks have met, it has a part in what follows.
    give_model();
    const bool is_late = lacks_model() && !averages() && nobody_has_met(said);
    if (lacks_model() && !is_late) learn();
    averages() ? take_over() : fetch();
    end_meetings(said);
    STRETTO_CHECK(account_->handed() == before, "member ", changes().number(), " holds ", account_->handed(),
                  " rounds in a world after ", before);
    if (averages()) average(who_weighs(in_world_, whose_are_own(said), options_.recipe->keeps_models));
    if (!of_this_world_) {
      next = make_recipe(world());
      // Deposits put into a world that was left before it began are in its first round, where that counts.
      const bool counted = left_unbegun_ && *left_unbegun_ < before;
      if (account_->has_begun() && !counted && !averages()) {
        next->carried_sums()->carried().put_in(recipe_->carried_sums()->carried().take_out(before));
      }
    }
    (void)meeting_->gather(*driver_, {});  // nobody exchanges before all have put theirs in
    if (is_late) learn();
  } catch (const Failure& failure) {
    if (!is_change(failure.error())) throw;
    left_unbegun_ = std::min(left_unbegun_.value_or(before), before);
    return false;
  }
  if (next != nullptr) {
    if (!averages()) next->carried_sums()->go_on_from(*recipe_->carried_sums());
    next->go_on_in(recipe_->grid());
    recipe_.swap(next);
    replica_.detach();  // from memory of the world before
  }
  weighs_ = true;
  account_->begun(recipe_->carried_sums());
  next.reset();  // of a world before: from now on nobody asks what it holds
  of_this_world_ = true;
  left_unbegun_.reset();
  fetched_.clear();
  before_.clear();
  alone_.reset();
  if (changes().begin()) {
    if (own_lines_ && recipe_->grid() != nullptr) {
      if (lines_ == nullptr) lines_ = std::make_unique<LineWorlds>(changes(), recipe_->grid());
      lines_->begun(changes().view().epoch);
      changes().enters_late();
      if (giver_ == nullptr) giver_ = std::make_unique<StateGiver>(changes());
    }
    listener_.members_are_new();
    return true;
  }
  take_what_is_complete();
  return false;
}

void Session::take_what_is_complete() {
  if (averages()) return;
  while (!changes().changing()) driver_->wait([] { return false; }, driver_->deadline(kLooksAtChangeEvery));
  while (recipe_->advance(*driver_, driver_->clock().now())) {  // which takes all, and then fails
  }
}

bool Session::lacks_model() const {
  return in_world_.members[static_cast<std::size_t>(rank())].held == kNoModel;
}

bool Session::nobody_has_met(const std::vector<Meeting::Numbers>& said) const {
  const View& view = in_world_;
  const std::uint64_t meetings = said[static_cast<std::size_t>(holder())][0];
  for (std::size_t rank = 0; rank < view.members.size(); ++rank) {
    if (view.members[rank].held != kNoModel && said[rank][0] != meetings) return false;
  }
  return meetings % 2 == 0;
}

void Session::give_model() {
  const View& view = in_world_;
  std::vector<int> to;
  for (std::size_t rank = 0; rank < view.members.size(); ++rank) {
    if (view.members[rank].held == kNoModel) to.push_back(static_cast<int>(rank));
  }
  if (to.empty()) return;
  compare_fingerprints();
  const std::string account = meeting_->broadcast_text(
      *driver_, [this] { return account_->text(); }, holder());
  if (lacks_model()) account_->learns(account);
  const auto model = [this]() -> std::vector<std::string> {
    return {meeting_->weights(), replica_.optimizer_state(),
            averages() ? account_->last_round() : recipe_->carried_sums()->model_beside(), state_to_give()};
  };
  meeting_->begin_giving(*driver_, model, holder(), to);
}

void Session::learn() {
  const std::vector<std::string> given = meeting_->take_given(*driver_);
  meeting_->set_weights(given[0]);
  replica_.set_optimizer_state(given[1]);
  if (!averages()) recipe_->carried_sums()->take_over(given[2]);
  account_->learned(averages() ? given[2] : std::string());
  take_state(holder(), given[3]);
}

void Session::give_state(int from, bool mine) {
  const std::string state = meeting_->broadcast_text(
      *driver_, [this] { return state_to_give(); }, from);
  if (mine) take_state(from, state);
}

std::string Session::state_to_give() {
  try {
    return listener_.state() + kGiven;
  } catch (const std::exception& error) {
    return std::string(error.what()) + kNotGiven;
  }
}

void Session::take_state(int from, std::string state) {
  const bool is_given = state.back() == kGiven;
  state.pop_back();
  if (!is_given) throw UsageError(text(name_of(from), " cannot give what its loop has beside the model: ", state));
  listener_.take_state(state);
}

void Session::fetch() {
  const View& view = in_world_;
  Round first = view.complete;
  for (const PlacedMember& member : view.members) {
    if (member.held != kNoModel) first = std::min(first, static_cast<Round>(member.held));
  }
  for (Round round = first; round < view.complete; ++round) {
    const auto kept = [&] {
      if (const auto known = fetched_.find(round); known != fetched_.end()) return known->second;
      const auto result = recipe_->carried_sums()->carried().result_of(round);
      STRETTO_CHECK(result.has_value(), "member ", changes().number(), " keeps round ", round, " no more");
      return encoded(*result);
    };
    std::string result = meeting_->broadcast_text(*driver_, kept, holder());
    if (account_->handed() != round) continue;
    catches_up_ = true;
    with_decoded(result, [this](const RoundResult& of_round) {
      recipe_->carried_sums()->apply_fetched(*driver_, of_round);
    }).or_throw();
    catches_up_ = false;
    fetched_.emplace(round, std::move(result));
  }
}

void Session::take_over() {
  const View& view = in_world_;
  const auto lacks = [&](const PlacedMember& member) {
    return member.held != kNoModel && member.held < static_cast<RoundsHeld>(view.complete);
  };
  if (std::ranges::none_of(view.members, lacks)) return;
  const int from = holder();
  const bool mine = lacks(view.members[static_cast<std::size_t>(rank())]);
  const std::string last = meeting_->broadcast_text(
      *driver_, [this] { return account_->last_round(); }, from);
  const auto hear = [&](auto say) { with_decoded(last, [&](const RoundResult& round) { say(round); }).or_throw(); };
  const auto takes = [&] {
    if (!mine) return false;
    hear([&](const RoundResult& round) {
      STRETTO_CHECK(round.round + 1 == view.complete, "round ", round.round, " is not the last before ", view.complete);
      account_->before(round);
    });
    return true;
  };
  if (options_.recipe->keeps_models) {
    (void)takes();
  } else {
    meeting_->broadcast_weights(*driver_, from, takes);
    weighs_ = weighs_ && !mine;  // the model of another rank weighs in the average already
  }
  if (!mine) return;
  catches_up_ = true;
  hear([&](const RoundResult& round) { account_->after(round); });
  catches_up_ = false;
}

void Session::average(const std::vector<bool>& weigh) {
  if (std::ranges::count(weigh, true) == 0) return;
  const RecipeContext context = with_each_model_once(recipe_context(world()));
  ModelAverage average(context, FullRounds::StepCount::none, options_.recipe->averages_momentum);
  meeting_->let_weigh(weigh);
  if (weigh[static_cast<std::size_t>(rank())]) {
    since_full_.batches = account_->num_pending();
    average.note_before(since_full_);
    average.hand_over();
  }
  for (;;) {
    const Result<int> done = average.finish(*driver_, driver_->deadline(options_.silence));
    if (done) break;
    if (done.error().code != Errc::timeout) throw Failure(done.error());
    if (options_.tell) options_.tell(account_->handed(), done.error().message);
  }
  meeting_->let_weigh({});
  weighs_ = true;
  if (meeting_->interrupted()) throw Failure({Errc::members_changed, "the members of the job change", -1});
}

Traffic Session::traffic() const {
  Traffic sent = sent_before_;
  sent.add(world().engine().traffic());
  if (own_lines_ && recipe_ != nullptr && recipe_->grid() != nullptr) sent.add(recipe_->grid()->traffic());
  return sent;
}

// ---- how ranks meet and part, how the session ends, and how a rank leaves it ----

bool Session::end(FunctionRef<void()> work) {
  require_no_failure("end");
  if (account_ == nullptr) {
    work();
    return true;
  }
  return unless_members_change([&] {
    work();
    return changes().finish();
  });
}

bool Session::unless_members_change(FunctionRef<bool()> work) {
  return ends_with([&] {
    bool is_cut_off = meeting_->interrupted();
    try {
      if (!is_cut_off && work()) return true;
    } catch (const Failure& failure) {
      if (!is_change(failure.error())) throw;
      is_cut_off = true;
    }
    if (is_cut_off && !rounds_over_) take_what_is_complete();
    rounds_go_on();
    follow();
    return false;
  });
}

bool Session::unless_cut_off(FunctionRef<void()> work) {
  try {
    work();
    return true;
  } catch (const Failure& failure) {
    if (!is_change(failure.error())) throw;
    return false;
  }
}

Session::Met Session::meet(FunctionRef<bool()> work) {
  require_no_failure("meet");
  if (account_ == nullptr) return work() ? Met::yes : Met::no;
  const std::uint64_t before = meetings_;
  bool met = false;
  const bool done = unless_members_change([&] {
    met = work();
    if (met) ++meetings_;
    return true;
  });
  if (done) return met ? Met::yes : Met::no;
  return meetings_ > before ? Met::by_others : Met::no;
}

Session::Met Session::part(FunctionRef<void()> work) {
  return meet([&] {
    work();
    return true;
  });
}

// A rank comes here from meet() or part(), or is new. One that has met comes from part(), and so do all that have.
void Session::end_meetings(const std::vector<Meeting::Numbers>& meetings) {
  const View& view = in_world_;
  std::vector<std::uint64_t> of_ranks;
  for (std::size_t rank = 0; rank < view.members.size(); ++rank) {
    const bool learned = view.members[rank].held == kNoModel;
    of_ranks.push_back(meetings[learned ? static_cast<std::size_t>(holder()) : rank][0]);
  }
  const auto most = std::ranges::max_element(of_ranks);
  if (std::ranges::count(of_ranks, *most) < std::ssize(of_ranks)) {
    const int from = static_cast<int>(most - of_ranks.begin());
    const bool mine = of_ranks[static_cast<std::size_t>(rank())] < *most;
    meeting_->broadcast_weights(*driver_, from, mine);
    give_state(from, mine);
  }
  const bool have_met = *most % 2 != 0;
  if (have_met) listener_.hear(meeting_->gather_lists(*driver_, listener_.tell()));
  meetings_ = *most + (have_met ? 1 : 0);
}

void Session::begin_again(std::uint64_t batches_before) {
  STRETTO_CHECK(rounds_over_, "a round of the recipe runs, or will");
  if (account_ != nullptr) {
    // What the rank holds is asked for at any time: the recipe that knows it stays until another one does.
    std::unique_ptr<Recipe> next = make_recipe(world());
    if (!averages()) next->carried_sums()->go_on_from(*recipe_->carried_sums());
    next->go_on_in(recipe_->grid());
    recipe_.swap(next);
    account_->begun(recipe_->carried_sums());
  } else {
    const std::string state = recipe_->state();
    options_.recipe_options.batches_before = batches_before;
    recipe_.reset();  // before the next one takes its memory
    recipe_ = make_recipe(world());
    if (!state.empty()) recipe_->set_state(state);
    if (by_layer_) bring_by_layer();
  }
  rounds_go_on();
}

void Session::rounds_go_on() {
  rounds_over_ = drained_ = in_step_ = false;
  sessions_.add(*this);
}

bool Session::wishes_to_leave() const {
  return account_ != nullptr &&
         (wishes_to_leave_.load(std::memory_order_relaxed) || context_.changes()->told_to_leave());
}

void Session::say_whether_leaving() {
  leaving_ |= wishes_to_leave();
  if (!leaving_) return;
  if (own_lines_) {
    if (!have_lines_its_model()) return;
    account_->leaves_beside();
    return changes().leave();
  }
  // Before it has begun in this world it says nothing: deposits may be on their way from the one before.
  // Where models are averaged what is pending is in the average at the beginning of the next.
  if (of_this_world_ && (averages() || !account_->pending())) changes().leave();
}

void Session::leave_if_wished() {
  if (!leaving_ && !wishes_to_leave()) return;
  require_no_failure("leave");
  ends_with([&] {
    // It counts as having come to every round, so that one takes what is pending, and the others do not wait for it.
    const auto comes = [this](TimePoint deadline) { return recipe_->finish(*driver_, deadline); };
    may_leave_ = true;
    if (giver_ != nullptr) giver_->stays(given_state());  // one that comes may have asked it, and is waited for
    if (own_lines_) give_lines_model();
    for (;;) {
      say_whether_leaving();
      if (own_lines_ && changes().changing()) {  // in no world whose rounds it could be missed in
        follow();
        continue;
      }
      if (insist(comes, AfterChange::not_again)) {
        say_whether_leaving();
        follow();  // the others get the batch that it may have in hand, and cannot end before
      }
    }
  });
}

}  // namespace stretto
