#include "stretto/membership/views/master.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/membership/views/members_in_words.h"

namespace stretto {
namespace {

using Do = MasterAction::Kind;

constexpr Duration kTellsLate = std::chrono::milliseconds(200);  // a member that waits

}  // namespace

Master::Master(MasterOptions options, TimePoint now) : options_(options), now_(now) {
  act(MasterAction::of(Do::read));
}

void Master::read(const Result<Registered>& content) {
  if (phase_ != Phase::reading) return;
  if (!content) return be_away(content.error().message);
  away_since_.reset();
  learn(*content);
  answers_ = true;
  step();
  answers_ = false;
}

void Master::be_away(const std::string& why) {
  why_away_ = why.empty() ? "it does not answer" : why;
  phase_ = Phase::away;
  if (!away_since_) away_since_ = now_;
  read_at_ = now_ + options_.again;
}

/// Takes over what the register holds. Reports stay where the epoch does.
void Master::learn(const Registered& content) {
  const bool news = !known_ || *known_ != content;
  if (!known_ || content.view.epoch != view().epoch) {
    asked_.clear();
    reports_.clear();
    few_since_.reset();
    waiting_since_.clear();
  }
  if (news) known_ = std::make_shared<const Registered>(content);
  members_.clear();
  for (const PlacedMember& member : view().members) members_.push_back(member.number);
  std::ranges::sort(members_);
  phase_ = content.end != JobEnd::none ? Phase::over : asked_.empty() ? Phase::watching : Phase::freezing;
  if (news) {
    tell_all();
    forget_past();
  }
  // It may have been read too early, or it has lost views.
  if (heard_of_ <= view().epoch || phase_ == Phase::over) return;
  be_away(text("a member is in epoch ", heard_of_, ", the register in epoch ", view().epoch));
}

/// Whether the process was a member, or too late to become one: it has nothing to say any more.
bool Master::is_past(MemberNumber number) const {
  return !is_member(number) && !view().may_come_in(number);
}

/// Else all that have ever come would be looked through at every word. One that is still there hears how it stands when
/// it says hello again.
void Master::forget_past() {
  const auto forget = [this](auto& said) { std::erase_if(said, [this](const auto& of) { return is_past(of.first); }); };
  forget(present_), forget(begun_), forget(done_), forget(stopped_);
  for (auto* numbers : {&lost_, &leaving_}) std::erase_if(*numbers, [this](auto number) { return is_past(number); });
}

void Master::tell_all() {
  for (const auto& [number, words] : present_) act({.kind = Do::tell, .to = number, .content = known_});
}

void Master::committed(Written written, const View& view, const std::string& why) {
  if (phase_ != Phase::writing) return;
  phase_ = Phase::reading;
  // The register may have done what it was asked for: nobody knows before it has been read.
  if (written == Written::unknown) return be_away(why);
  if (written == Written::refused) return act(MasterAction::of(Do::read));
  const View before = this->view();
  learn({view, JobEnd::none});
  for (const PlacedMember& old : before.members) {
    if (!view.has(old.number) && !view.has_departed(old.number)) act(MasterAction::of(Do::kill, old.number));
  }
  step();
}

void Master::ended(Written written, const std::string& why) {
  if (phase_ != Phase::writing) return;
  phase_ = Phase::reading;
  if (written == Written::unknown) return be_away(why);
  act(MasterAction::of(Do::read));
}

void Master::hello(const HelloWords& words) {
  const bool is_new = present_.insert_or_assign(words.number, words).second;
  if (is_new) came_ = now_;
  hear_of(words.epoch);
  if (words.stopped) {
    hear_of(*words.stopped);
    stopped_[words.number] = std::max(stopped_[words.number], *words.stopped);
  }
  // A learner whose connection alone had ended is back; a member's loss stands, since others may have acted on it.
  if (!known_ || !is_member(words.number)) lost_.erase(words.number);
  if (!known_) return;
  if (phase_ == Phase::over || is_past(words.number) || (is_member(words.number) && words.epoch < view().epoch)) {
    act({.kind = Do::tell, .to = words.number, .content = known_});
  }
  if (asked_.contains(words.number) && words.epoch <= view().epoch)
    act(MasterAction::of(Do::freeze, words.number, view().epoch));
  step();
}

void Master::hear_of(std::uint64_t epoch) {
  if (!defect(Defect::members_overtaken)) heard_of_ = std::max(heard_of_, epoch);
}

void Master::lost(MemberNumber number) {
  if (lost_.insert(number).second) step();
}

void Master::reported(const ReportWords& words) {
  hear_of(words.epoch);
  stopped_[words.number] = std::max(stopped_[words.number], words.epoch);
  if (known_ && words.epoch == view().epoch) reports_[words.number] = words;
  step();
}

void Master::begun(MemberNumber number, std::uint64_t epoch) {
  begun_[number] = std::max(begun_[number], epoch);
  hear_of(epoch);
  step();
}

void Master::done(MemberNumber number, std::uint64_t epoch) {
  done_[number] = std::max(done_[number], epoch);
  step();
}

void Master::leaving(MemberNumber number) {
  if (leaving_.insert(number).second) step();
}

void Master::waits(MemberNumber number, bool does) {
  if (does) {
    waiting_since_.try_emplace(number, now_);
  } else {
    waiting_since_.erase(number);
  }
}

/// Members for which the others have waited too long, in a call, or this master for their answers. One that waits
/// itself says so within a second, and does not stand still.
std::vector<MemberNumber> Master::standing_still() const {
  std::vector<MemberNumber> still;
  const auto add_unless = [&](auto moves) {
    for (const PlacedMember& member : view().members) {
      if (!lost_.contains(member.number) && !moves(member.number)) still.push_back(member.number);
    }
  };
  const auto is_over = [&](TimePoint since, Duration allowed) { return now_ - since >= allowed; };
  const auto has_begun = [&](MemberNumber number) {
    const auto found = begun_.find(number);
    return found != begun_.end() && found->second >= view().epoch;
  };
  if (phase_ == Phase::freezing) {
    if (is_over(asked_at_, options_.evict)) add_unless([&](auto number) { return reports_.contains(number); });
  }
  const auto long_enough = [&](const auto& waits) { return is_over(waits.second, options_.evict + kTellsLate); };
  if (phase_ == Phase::watching && std::ranges::any_of(waiting_since_, long_enough)) {
    const bool begins = !all_of_view(begun_);
    add_unless([&](auto number) {
      return waiting_since_.contains(number) || leaving_.contains(number) || (begins && has_begun(number));
    });
  }
  return still;
}

void Master::evict() {
  if (options_.evict <= Duration::zero() || !known_ || view().epoch == 0) return;
  const std::vector<MemberNumber> still = standing_still();
  if (still.empty() || still.size() == survivors().size()) return;
  lost_.insert(still.begin(), still.end());
  MasterAction words = MasterAction::of(Do::say);
  words.words = text(members_in_words(still), still.size() == 1 ? " is" : " are",
                     " excluded: the others have waited for ", to_text(options_.evict));
  act(std::move(words));
}

void Master::tick(TimePoint now) {
  now_ = now;
  evict();
  if (phase_ == Phase::away && now_ >= read_at_) {
    phase_ = Phase::reading;
    act(MasterAction::of(Do::read));
  }
  if (few_since_ && now_ - *few_since_ >= options_.wait && phase_ == Phase::freezing) return end(JobEnd::given_up);
  step();
}

/// The job, in the register.
void Master::end(JobEnd how, std::string why) {
  phase_ = Phase::writing;
  MasterAction action = MasterAction::of(Do::end, 0, view().epoch);
  action.how = how;
  action.words = std::move(why);
  act(std::move(action));
}

void Master::step() {
  if (!known_) return;
  if (!too_few_stay()) {
    too_few_stay_since_.reset();
  } else if (!too_few_stay_since_) {
    too_few_stay_since_ = now_;
  }
  // Another master has brought the job further: nobody obeys what this one says of its own epoch.
  if (heard_of_ > view().epoch && (phase_ == Phase::watching || phase_ == Phase::freezing)) {
    phase_ = Phase::reading;
    return act(MasterAction::of(Do::read));
  }
  if (phase_ == Phase::watching) watch();
  if (phase_ == Phase::freezing) {
    ask();
    decide();
  }
}

std::vector<MemberNumber> Master::survivors() const {
  std::vector<MemberNumber> numbers;
  for (const PlacedMember& member : view().members) {
    if (!lost_.contains(member.number)) numbers.push_back(member.number);
  }
  return numbers;
}

/// Those that may come in, the one with the lowest number first.
std::vector<MemberNumber> Master::learners() const {
  std::vector<MemberNumber> numbers;
  for (const auto& [number, words] : present_) {
    if (!is_member(number) && view().may_come_in(number) && !lost_.contains(number)) numbers.push_back(number);
  }
  return numbers;
}

/// The learners for which there is room. One that leaves takes none.
std::vector<MemberNumber> Master::coming_in() const {
  std::vector<MemberNumber> numbers = learners();
  std::size_t stay = 0;
  for (const MemberNumber number : survivors()) stay += leaving_.contains(number) ? 0 : 1;
  numbers.resize(std::min(numbers.size(), options_.most - std::min(options_.most, stay)));
  return numbers;
}

bool Master::all_of_view(const std::map<MemberNumber, std::uint64_t>& said) const {
  const auto has_said = [&](const PlacedMember& member) {
    const auto found = said.find(member.number);
    return found != said.end() && found->second >= view().epoch;
  };
  if (&said == &done_ && defect(Defect::members_one_is_done)) return std::ranges::any_of(view().members, has_said);
  return std::ranges::all_of(view().members, has_said);
}

bool Master::has_gathered() const {
  const bool is_first = view().epoch == 0;
  const std::size_t come = coming_in().size();
  // Before the first view the processes are those that were started together: nobody waits for one that is lost.
  const std::size_t gone = is_first ? lost_.size() : 0;
  const Duration gather = is_first ? options_.gather : options_.gather_more;
  const std::size_t enough = is_first ? std::min(options_.first, options_.most) : options_.most;
  return come > 0 && (survivors().size() + come + gone >= enough || now_ - came_ >= gather);
}

/// Whether enough members are left when those that leave are gone.
bool Master::may_let_go() const {
  std::size_t leave = 0, stay = 0;
  for (const MemberNumber number : survivors()) ++(leaving_.contains(number) ? leave : stay);
  return leave > 0 && stay > 0 && stay + coming_in().size() >= options_.least;
}

/// Whether too few would be left when those that leave are gone. Where all leave nobody has the model any more.
bool Master::too_few_stay() const {
  std::size_t leave = 0, stay = 0;
  for (const MemberNumber number : survivors()) ++(leaving_.contains(number) ? leave : stay);
  return leave > 0 && stay + coming_in().size() < std::max<std::size_t>(options_.least, 1);
}

/// The same, and nobody has come for so long that the job is given up.
bool Master::ends_by_leaving() const {
  if (!too_few_stay_since_) return false;
  const std::vector<MemberNumber> old = survivors();
  const bool all_leave = std::ranges::all_of(old, [&](MemberNumber number) { return leaving_.contains(number); });
  const Duration wait = all_leave ? std::min(options_.wait_to_leave, options_.wait_for_last) : options_.wait_to_leave;
  return now_ - *too_few_stay_since_ >= wait;
}

void Master::watch() {
  refuse_misfits();
  if (view().epoch > 0 && all_of_view(done_)) return end(JobEnd::done);
  const bool must = must_change();
  if (!must && !may_change()) return;
  // Members that have stopped go on when the next view is written.
  if (!must && !answers_) {
    phase_ = Phase::reading;
    return act(MasterAction::of(Do::read));
  }
  phase_ = Phase::freezing;
}

/// Whether there is a reason for another view without which members do not go on, or cannot begin.
bool Master::must_change() const {
  if (view().epoch == 0) return coming_in().size() >= options_.least && has_gathered();
  if (survivors().size() < view().members.size()) return true;
  // A member has stopped for good: where the master that wanted it is gone, this one has to decide.
  for (const auto& [number, epoch] : stopped_) {
    if (epoch >= view().epoch && is_member(number)) return true;
  }
  return false;
}

/// Whether there is another reason, with which members go on meanwhile. All of them have begun first: else the same
/// members might be stopped again and again, and get nowhere.
bool Master::may_change() const {
  if (view().epoch == 0) return false;
  if (!all_of_view(begun_) && !defect(Defect::members_before_begun)) return false;
  return has_gathered() || may_let_go() || ends_by_leaving();
}

/// Looks at learners before they count. The terms of a job are those of its first member.
void Master::refuse_misfits() {
  const std::vector<MemberNumber> numbers = learners();
  if (numbers.empty()) return;
  const auto terms = view().epoch > 0 ? view().terms : present_.at(numbers.front()).terms;
  for (const MemberNumber number : numbers) {
    const std::string differs = difference_of_terms(terms, present_.at(number).terms);
    if (differs.empty()) continue;
    MasterAction refusal = MasterAction::of(Do::refuse, number);
    refusal.words = differs;
    act(std::move(refusal));
    present_.erase(number);
  }
}

/// Stops the members that may be in the next view. A learner has nothing to stop, and is not asked: while one master
/// waits for its answer another one, which does not, may decide views for ever.
void Master::ask() {
  refuse_misfits();
  for (const MemberNumber number : survivors()) {
    if (asked_.empty()) asked_at_ = now_;
    if (asked_.insert(number).second) act(MasterAction::of(Do::freeze, number, view().epoch));
  }
}

/// The members of the view that stay in the next one. Those that leave are let go together: where nothing of them is
/// pending, a member stays, and none that stays is behind, since it could no longer get what it lacks.
std::vector<PlacedMember> Master::staying(RoundsHeld most_held, std::vector<MemberNumber>& let_go) const {
  std::vector<PlacedMember> stay, all;
  bool none_behind = true;
  for (const PlacedMember& member : view().members) {
    if (lost_.contains(member.number)) continue;
    const ReportWords& report = reports_.at(member.number);
    all.push_back({member.number, member.host, report.holding.held});
    if (report.may_go()) {
      let_go.push_back(member.number);
      continue;
    }
    stay.push_back(all.back());
    none_behind &= report.holding.held == most_held || defect(Defect::members_leaver_unwatched);
  }
  if (!stay.empty() && none_behind && stay.size() + coming_in().size() >= options_.least) return stay;
  let_go.clear();
  return all;
}

void Master::decide() {
  const std::vector<MemberNumber> old = survivors(), come = coming_in();
  if (!std::ranges::all_of(old, [&](MemberNumber number) { return reports_.contains(number); })) return;

  RoundsHeld most_held = kNoModel;
  View next{.epoch = view().epoch + 1,
            .departed = view().departed,
            .left = view().left,
            .next_number = view().next_number,
            .unused = view().unused,
            .position = view().position,
            .terms = view().terms};
  BatchesApplied applied;
  for (const MemberNumber number : old) {
    const Holding& holding = reports_.at(number).holding;
    const bool less = defect(Defect::members_least_held) && most_held != kNoModel && holding.held != kNoModel;
    if (less ? holding.held >= most_held : holding.held <= most_held) continue;
    most_held = holding.held;
    applied = holding.applied;
  }
  // A member that has stopped without having begun has kept all from leaving the job, also where it is lost by now and
  // only spares are left: nobody knows of a model but those that are lost.
  const bool may_begin_anew =
      !old.empty() || (come.size() >= options_.least && std::ranges::any_of(reports_, [](const auto& one) {
                         return one.second.holding.held == kNoModel;
                       }));
  const bool begins_anew =
      most_held == kNoModel && (view().epoch == 0 || (view().complete == 0 && !defect(Defect::members_never_anew) &&
                                                      (may_begin_anew || defect(Defect::members_anew_after_loss))));
  if (most_held == kNoModel && !begins_anew) return end(JobEnd::given_up);

  const auto may_go = [&](MemberNumber number) { return reports_.at(number).may_go(); };
  if (ends_by_leaving() &&
      std::ranges::all_of(old, [&](MemberNumber number) { return !leaving_.contains(number) || may_go(number); })) {
    const std::size_t leave = static_cast<std::size_t>(std::ranges::count_if(old, may_go));
    return end(JobEnd::given_up, old.size() == leave
                                     ? std::string("the job is over before its end: its last member leaves")
                                     : text("the job is given up: fewer than ", options_.least,
                                            " members are left without those that leave"));
  }
  std::vector<MemberNumber> let_go;
  next.members = view().closed_up(staying(most_held, let_go));
  for (const PlacedMember& member : next.members) {
    const ReportWords& report = reports_.at(member.number);
    if (report.leaving) next.leaving.push_back(member.number);
    if (report.gives && !report.leaving && member.held == most_held) next.gives.push_back(member.number);
  }
  for (const MemberNumber number : come) next.members.push_back({number, present_.at(number).host, kNoModel});
  if (next.members.size() < options_.least || next.members.empty()) {
    if (!few_since_) few_since_ = now_;
    return;
  }
  for (const MemberNumber number : let_go) next.let_go(number, reports_.at(number).left());
  for (const auto& [number, batches] : next.left) {
    if (!defect(Defect::averaged_left_come_back)) applied[number] = std::max(applied[number], batches);
  }
  few_since_.reset();
  next.rows = view().rows_among(next.members.size());
  // The model of its first member is the one that the job begins with.
  if (begins_anew) next.members.front().held = most_held = 0;
  next.complete = static_cast<std::uint64_t>(most_held);
  next.use_numbers();
  if (view().epoch == 0) next.terms = present_.at(next.members.front().number).terms;
  phase_ = Phase::writing;
  act({.kind = Do::commit,
       .content = std::make_shared<const Registered>(Registered{std::move(next), JobEnd::none}),
       .applied = std::move(applied)});
}

std::string Master::waiting() const {
  if (away_since_) {
    return text("the register does not answer (", why_away_, "): no change of members, and no end, can be decided");
  }
  if (!known_ || phase_ == Phase::over) return {};
  const std::size_t there = survivors().size() + learners().size();
  if (few_since_ || (view().epoch == 0 && there > 0 && there < options_.least)) {
    return text(there, " of at least ", options_.least, " members are there");
  }
  std::vector<MemberNumber> silent;
  if (phase_ == Phase::freezing) {
    for (const MemberNumber number : asked_) {
      if (!lost_.contains(number) && !reports_.contains(number)) silent.push_back(number);
    }
    if (!silent.empty()) return text("epoch ", view().epoch, " waits for what ", members_in_words(silent), " holds");
  }
  if (view().epoch > 0 && !all_of_view(begun_)) {
    for (const PlacedMember& member : view().members) {
      const auto found = begun_.find(member.number);
      if (found == begun_.end() || found->second < view().epoch) silent.push_back(member.number);
    }
    return text("epoch ", view().epoch, " waits for ", members_in_words(silent), " to begin");
  }
  return {};
}

void Master::describe(std::vector<std::int64_t>& words) const {
  const auto put = [&](auto word) { words.push_back(static_cast<std::int64_t>(word)); };
  const auto put_all = [&](const auto& numbers) {
    put(-1);
    for (const auto number : numbers) put(number);
  };
  put(phase_);
  put(known_ ? static_cast<std::int64_t>(view().epoch) : -1);
  put(known_ ? static_cast<std::int64_t>(known_->end) : -1);
  put_all(lost_), put_all(leaving_), put_all(asked_);
  for (const auto* said : {&begun_, &done_, &stopped_}) {
    put(-1);
    for (const auto& [number, epoch] : *said) put(number), put(epoch);
  }
  put(-1);
  for (const auto& [number, hello] : present_) put(number);
  put(-1);
  for (const auto& [number, report] : reports_) {
    put(number), put(report.holding.held), put(report.holding.pending + 2 * report.leaving);
  }
  put(heard_of_);
  put(few_since_.has_value() + 2 * away_since_.has_value());
}

}  // namespace stretto
