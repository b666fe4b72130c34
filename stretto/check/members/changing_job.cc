#include "stretto/check/members/changing_job.h"

#include <algorithm>

#include "stretto/base/defect.h"

namespace stretto {
namespace {

using Does = ChangingJob::Step::Kind;
using Wants = MasterAction::Kind;

}  // namespace

MemberNumber ChangingJob::come() {
  const MemberNumber number = next_number_++;
  sites_.emplace(number, Site{Member(number, text("h", number % 2), {{"model", "m"}})});
  rounds_.come(number);
  return number;
}

void ChangingJob::lose(MemberNumber number) {
  site(number).is_there = false;
  rounds_.lose(number);
  const View& view = last_.view;
  if (const auto place = view.place_of(number)) {
    const auto& held = view.members[*place].held;
    const bool all_begun = std::ranges::all_of(view.members, [&](const PlacedMember& one) {
      const Member& member = this->member(one.number);
      return member.view().epoch == view.epoch && member.has_begun();
    });
    if (!all_begun && std::cmp_equal(held, view.complete)) ++counts_.holders_lost;
  }
}

void ChangingJob::suspect(MemberNumber number) {
  suspected_.insert(number);
  for (std::size_t master = 0; master < masters_.size(); ++master) {
    if (masters_[master].is_there) disconnect(number, master);
  }
}

/// For a master a process has ended: its connection has. If it is there, it makes another one.
void ChangingJob::disconnect(MemberNumber number, std::size_t at) {
  masters_[at].up[number].clear();
  masters_[at].down[number].clear();
  site(number).spoken.erase(at);
  masters_[at].master.lost(number);
  follow(at);
}

void ChangingJob::leave(MemberNumber number) {
  site(number).member.leave();
  rounds_.leave(number);
  look(number);
}

std::size_t ChangingJob::start_master() {
  masters_.push_back({Master(options_, now_)});
  follow(masters_.size() - 1);
  return masters_.size() - 1;
}

void ChangingJob::lose_master(std::size_t master) {
  masters_[master].is_there = false;
  ++counts_.masters_lost[masters_[master].master.phase()];
}

void ChangingJob::pass_time() {
  now_ = now_ + std::chrono::seconds(1);
  for (std::size_t master = 0; master < masters_.size(); ++master) {
    if (!masters_[master].is_there) continue;
    masters_[master].master.tick(now_);
    follow(master);
  }
}

std::vector<MemberNumber> ChangingJob::living() const {
  std::vector<MemberNumber> numbers;
  for (const auto& [number, site] : sites_) {
    if (is_in(site)) numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::size_t> ChangingJob::living_masters() const {
  std::vector<std::size_t> numbers;
  for (std::size_t master = 0; master < masters_.size(); ++master) {
    if (masters_[master].is_there) numbers.push_back(master);
  }
  return numbers;
}

std::vector<ChangingJob::Step> ChangingJob::steps() const {
  std::vector<Step> steps;
  std::vector<CarriedRounds::Step> own;
  rounds_.add_steps(own);
  for (const CarriedRounds::Step& step : own) {
    if (is_in(sites_.at(step.number))) steps.push_back({Does::application, step.number, 0, step});
  }
  for (const auto& [number, site] : sites_) {
    if (!is_in(site)) continue;
    const auto next = site.member.next();
    if (next && rounds_.is_at_call(number)) steps.push_back({Does::enter, number});
    if (!site.member.has_begun() && rounds_.may_begin(number)) steps.push_back({Does::begin, number});
  }
  for (std::size_t master = 0; master < masters_.size(); ++master) {
    const MasterSite& there = masters_[master];
    if (!there.is_there) continue;
    if (!there.wants.empty()) steps.push_back({Does::write, 0, master});
    for (const auto& [number, site] : sites_) {
      const auto down = there.down.find(number);
      if (down != there.down.end() && !down->second.empty() && site.is_there) {
        steps.push_back({Does::hear, number, master});
      }
      const auto up = there.up.find(number);
      if (up != there.up.end() && !up->second.empty()) steps.push_back({Does::told, number, master});
      if (is_in(site) && !site.spoken.contains(master)) steps.push_back({Does::say, number, master});
      if (!site.is_there && !there.knows_lost.contains(number)) steps.push_back({Does::detect, number, master});
    }
  }
  return steps;
}

void ChangingJob::take(const Step& step) {
  switch (step.kind) {
    case Does::application: rounds_.take(step.rounds); return look(step.number);
    case Does::say: return say_all(step.number, step.master);
    case Does::hear: return hear(step.number, step.master);
    case Does::told: return tell(step.number, step.master);
    case Does::write: return answer(step.master);
    case Does::detect:
      masters_[step.master].knows_lost.insert(step.number);
      return disconnect(step.number, step.master);
    case Does::enter: {
      const View& view = site(step.number).member.enter();
      rounds_.enter(step.number, view);
      return;
    }
    case Does::begin:
      if (!site(step.number).member.begin()) return;
      rounds_.begin(step.number);
      speak(step.number, {.kind = Word::Kind::begun, .epoch = member(step.number).view().epoch});
      return look(step.number);
  }
}

/// What follows for membership from where the application is.
void ChangingJob::look(MemberNumber number) {
  Member& member = site(number).member;
  if (member.has_begun() && !member.is_done() && rounds_.has_finished(number) && member.finish()) {
    speak(number, {.kind = Word::Kind::done, .epoch = member.view().epoch});
  }
  if (member.is_leaving() && rounds_.may_go(number)) speak(number, {.kind = Word::Kind::leaving});
}

void ChangingJob::speak(MemberNumber number, Word word) {
  for (const std::size_t master : site(number).spoken) masters_[master].up[number].push_back(word);
}

void ChangingJob::say_all(MemberNumber number, std::size_t master) {
  Site& there = site(number);
  there.spoken.insert(master);
  auto& words = masters_[master].up[number];
  words.push_back({.kind = Word::Kind::hello, .hello = there.member.hello()});
  if (defect(Defect::members_stop_untold)) words.back().hello.stopped.reset();
  const std::uint64_t epoch = there.member.view().epoch;
  if (there.member.has_begun()) words.push_back({.kind = Word::Kind::begun, .epoch = epoch});
  if (there.member.is_done()) words.push_back({.kind = Word::Kind::done, .epoch = epoch});
  if (there.member.is_leaving() && rounds_.may_go(number)) words.push_back({.kind = Word::Kind::leaving});
}

void ChangingJob::tell(MemberNumber number, std::size_t at) {
  auto& words = masters_[at].up.at(number);
  const Word word = std::move(words.front());
  words.pop_front();
  Master& master = masters_[at].master;
  switch (word.kind) {
    case Word::Kind::hello: master.hello(word.hello); break;
    case Word::Kind::report:
      master.reported(word.report);
      if (master.known() && master.known()->view.epoch == word.report.epoch && word.report.holding.held == kNoModel) {
        masters_[at].not_begun = word.report.epoch;
      }
      break;
    case Word::Kind::begun: master.begun(number, word.epoch); break;
    case Word::Kind::done: master.done(number, word.epoch); break;
    case Word::Kind::leaving: master.leaving(number); break;
  }
  follow(at);
}

void ChangingJob::hear(MemberNumber number, std::size_t at) {
  auto& words = masters_[at].down.at(number);
  const MasterAction word = std::move(words.front());
  words.pop_front();
  Site& there = site(number);
  if (word.kind == Wants::tell) {
    there.member.tell(word.content);
    const bool is_excluded = there.member.standing() == Standing::excluded;
    if (is_excluded && rounds_.holding(number).held > static_cast<RoundsHeld>(word.content->view.complete)) {
      ++counts_.excluded_with_own_rounds;
    }
    if (there.member.standing() == Standing::departed) ++counts_.departed;
    if (is_in(there)) return;
    check_standing(number);
    there.is_there = false;  // the process ends, and an excluded one comes back by another number
    rounds_.lose(number);
    if (is_excluded && returns_) come();
    return;
  }
  if (!there.member.freeze(word.epoch)) {
    if (is_in(there)) masters_[at].up[number].push_back({.kind = Word::Kind::hello, .hello = there.member.hello()});
    return;
  }
  if (there.member.view().epoch > 0 && !defect(Defect::members_round_after_report)) rounds_.stop(number);
  const Word report{.kind = Word::Kind::report, .report = there.member.report(word.epoch, rounds_.holding(number))};
  if (defect(Defect::members_stop_untold)) return masters_[at].up[number].push_back(report);
  speak(number, report);
}

/// Whether a process may take itself for what it does.
void ChangingJob::check_standing(MemberNumber number) {
  const Standing standing = member(number).standing();
  if (standing == Standing::departed && !last_.view.has_departed(number)) {
    violated(text("member ", number, " takes itself for departed"));
  }
  if (standing == Standing::finished && member(number).view().epoch > 0 && !rounds_.has_finished(number)) {
    violated(text("member ", number, " ends without the last round"));
  }
}

/// Does what a master wants.
void ChangingJob::follow(std::size_t at) {
  MasterSite& there = masters_[at];
  for (MasterAction& action : there.master.take_actions()) {
    switch (action.kind) {
      case Wants::end: check_spares(there, action); [[fallthrough]];
      case Wants::read:
      case Wants::commit: there.wants.push_back(std::move(action)); break;
      case Wants::freeze:
      case Wants::tell: there.down[action.to].push_back(std::move(action)); break;
      case Wants::kill:
      case Wants::say: break;  // nothing may depend on it
      case Wants::refuse: violated(text("member ", action.to, " is refused: ", action.words)); break;
    }
  }
}

void ChangingJob::answer(std::size_t at) {
  MasterSite& there = masters_[at];
  const MasterAction action = std::move(there.wants.front());
  there.wants.pop_front();
  const Answer answer = std::exchange(answer_, Answer::known);
  if (action.kind == Wants::read) {
    if (answer == Answer::known) {
      there.master.read(last_);
    } else {
      there.master.read(Error{Errc::unavailable, "no answer"});
    }
  } else if (action.kind == Wants::commit) {
    commit(there.master, action, answer);
  } else {
    Written written = Written::unknown;
    if (answer != Answer::lost_before) written = register_.end(action.epoch, action.how);
    check_register(register_.read().value());
    there.master.ended(answer == Answer::known ? written : Written::unknown);
  }
  follow(at);
}

void ChangingJob::commit(Master& master, const MasterAction& action, Answer answer) {
  View view = action.content->view;
  // The pool stands beside the register: a master that another one has overtaken does not touch it.
  std::optional<PoolChange> change;
  if (view.epoch == last_.view.epoch + 1) {
    change = change_pool(rounds_.pool(), last_.view, view, action.applied);
    view.position = change->pool.position();
  }
  Written written = Written::unknown;
  if (answer != Answer::lost_before) written = register_.commit(view);
  if (written == Written::done) rounds_.decided(view, *std::move(change));
  check_register(register_.read().value());
  master.committed(answer == Answer::known ? written : Written::unknown, view);
}

void ChangingJob::check_register(const Registered& now) {
  const View &before = last_.view, &view = now.view;
  if (now == last_) return;
  if (last_.end != JobEnd::none) violated("the register changes after the end");
  if (now.end == JobEnd::none) {
    if (view.epoch != before.epoch + 1) violated(text("epoch ", view.epoch, " follows epoch ", before.epoch));
    for (const PlacedMember& member : view.members) {
      if (!ever_in_.insert(member.number).second && !before.has(member.number)) {
        violated(text("number ", member.number, " is taken in twice"));
      }
      if (before.has(member.number) && this->member(member.number).is_leaving()) ++counts_.leavers_held_back;
    }
    const bool holds_nothing = std::ranges::all_of(view.members, [&](const PlacedMember& member) {
      return member.held == kNoModel || rounds_.holding(member.number).held == kNoModel;
    });
    if (view.epoch > 1 && holds_nothing) ++counts_.begun_anew;
    const auto stays = [&](const PlacedMember& member) { return before.has(member.number); };
    if (view.epoch > 1 && std::ranges::none_of(view.members, stays)) ++counts_.begun_by_spares;
  } else if (view != before) {
    violated("the view changes at the end");
  }
  if (now.end == JobEnd::given_up) check_given_up(view);
  last_ = now;
}

/// Until all have begun the first world nobody has trained: any member that is left can give its weights to the others.
void ChangingJob::check_given_up(const View& view) {
  for (const PlacedMember& member : view.members) {
    const bool is_left = site(member.number).is_there && !suspected_.contains(member.number);
    if (is_left && (view.complete == 0 || rounds_.holding(member.number).held != kNoModel)) {
      violated(text("the job is given up in epoch ", view.epoch, ", and member ", member.number, " is left"));
    }
  }
}

/// Where all members are lost, and one of them has said that their first world has not begun, spares take over.
void ChangingJob::check_spares(const MasterSite& master, const MasterAction& end) {
  if (end.how != JobEnd::given_up) return;
  const View& view = master.master.known()->view;
  const auto is_lost = [&](const PlacedMember& member) { return master.master.has_lost(member.number); };
  const bool are_enough = std::min(master.master.spares().size(), options_.most) >= options_.least;
  if (view.epoch > 0 && view.complete == 0 && master.not_begun == view.epoch && are_enough &&
      std::ranges::all_of(view.members, is_lost)) {
    violated(text("the job is given up in epoch ", view.epoch, ", which has not begun, and spares are there"));
  }
}

void ChangingJob::check_end() {
  if (!has_ended()) {
    std::string waits;
    for (const MasterSite& there : masters_) {
      if (there.is_there && !there.master.waiting().empty()) waits += "; " + there.master.waiting();
    }
    for (const auto& [number, site] : sites_) {
      const Member& member = site.member;
      waits += text("; member ", number, site.is_there ? "" : " (ended)", " in epoch ", member.view().epoch,
                    member.is_frozen() ? ", stopped" : "", member.has_begun() ? ", begun" : "", ", standing ",
                    static_cast<int>(member.standing()), ", holds ", rounds_.holding(number).held);
    }
    return violated(text("nothing happens any more in epoch ", last_.view.epoch, ", and the job has not ended", waits));
  }
  for (const auto& [number, site] : sites_) {
    if (is_in(site)) violated(text("member ", number, " does not know that the job has ended"));
    if (site.member.standing() == Standing::finished && last_.end != JobEnd::done) {
      violated(text("member ", number, " has finished a job that was given up"));
    }
  }
  if (last_.end == JobEnd::done) rounds_.check_end(last_.view.epoch);
}

void ChangingJob::describe(std::vector<std::int64_t>& words) const {
  const auto put = [&](auto word) { words.push_back(static_cast<std::int64_t>(word)); };
  rounds_.describe(words);
  const auto put_view = [&](const Registered& content) {
    put(content.view.epoch), put(content.end), put(content.view.complete);
    for (const PlacedMember& member : content.view.members) put(member.number), put(member.held);
    for (const MemberNumber number : content.view.departed) put(-number - 2);
  };
  const auto put_content = [&](const MasterAction& action) {
    put_view(action.content != nullptr ? *action.content : Registered());
  };
  put_view(last_);
  for (const auto& [number, site] : sites_) {
    put(site.is_there);
    site.member.describe(words);
    for (const std::size_t master : site.spoken) put(master);
  }
  for (const MasterSite& there : masters_) {
    put(there.is_there);
    if (!there.is_there) continue;
    there.master.describe(words);
    for (const MasterAction& action : there.wants) put(action.kind), put_content(action), put(action.epoch);
    for (const auto& [number, actions] : there.down) {
      for (const MasterAction& action : actions) put(number), put(action.kind), put(action.epoch), put_content(action);
    }
    for (const auto& [number, sent] : there.up) {
      for (const Word& word : sent) {
        put(number), put(word.kind), put(word.epoch), put(word.report.epoch), put(word.report.holding.held);
      }
    }
    for (const MemberNumber number : there.knows_lost) put(number);
  }
}

}  // namespace stretto
