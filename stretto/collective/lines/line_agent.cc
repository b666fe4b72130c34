#include "stretto/collective/lines/line_agent.h"

#include <algorithm>
#include <functional>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

LineAgent::LineAgent(int own, int members, const LineOptions& options)
    : own_(own), options_(options), suspected_(members), said_(static_cast<std::size_t>(members)) {
  options_.require();
}

void LineAgent::started(Round round) {
  if (round >= next_) open(round);
}

std::optional<Round> LineAgent::admit(Round round) {
  if (defect(Defect::grid_round_modulo)) {
    const auto slots = static_cast<Round>(options_.rounds_in_flight);
    for (const auto& [other, here] : here_) {
      if (!here.is_over() && other % slots == round % slots) return other;
    }
  }
  if (round >= next_ && !defect(Defect::grid_start_alone)) open(round);
  return here_.contains(round) ? std::optional(round) : std::nullopt;
}

/// The newest version, unless it has been contributed, or what was contributed has not come back to the model: with one
/// model's steps twice in a mean, or a mean that the model does not know of, models would swing.
std::uint64_t LineAgent::contribution() const {
  if (options_.update == ElasticUpdate::paper || defect(Defect::grid_version_twice)) return newest_;
  return !owes() && newest_ > contributed_ ? newest_ : 0;
}

bool LineAgent::owes() const {
  return std::ranges::any_of(here_, [](const auto& entry) { return entry.second.contributes; });
}

void LineAgent::open(Round round) {
  const auto most = static_cast<Round>(options_.rounds_in_flight);
  for (auto& [older, here] : here_) {
    if (here.is_over() || round - older < most || defect(Defect::grid_not_forced)) continue;
    here.forced = true;
    actions_.push_back({.kind = Action::Kind::force, .round = older});
  }
  const std::uint64_t version = contribution();
  if (version > 0) contributed_ = version;
  here_[round].contributes = version > 0;
  next_ = round + 1;
  actions_.push_back({.kind = Action::Kind::open, .round = round, .version = version});
  drop_untaken();
}

/// A line may go on while this node's application computes: complete rounds would pile up. One whose means the others
/// move by with this node's model in them is kept.
void LineAgent::drop_untaken() {
  const auto may_drop = [this](const Here& here) {
    return here.complete && !here.taken && !(here.contributes && options_.update == ElasticUpdate::carry);
  };
  auto untaken = std::ranges::count_if(here_, [&](const auto& entry) { return may_drop(entry.second); });
  for (auto entry = here_.begin(); untaken > options_.rounds_in_flight;) {
    const bool drops = may_drop(entry->second);
    if (drops) actions_.push_back({.kind = Action::Kind::drop, .round = entry->first});
    untaken -= drops ? 1 : 0;
    entry = drops ? here_.erase(entry) : std::next(entry);
  }
}

void LineAgent::completed(Round round) {
  here_.at(round).complete = true;
}

std::vector<Round> LineAgent::take() {
  std::vector<Round> out;
  for (auto& [round, here] : here_) {
    if (!here.complete) break;
    here.taken = true;
    out.push_back(round);
  }
  return out;
}

void LineAgent::applied(std::uint64_t version) {
  newest_ = version;
  std::erase_if(here_, [](const auto& entry) { return entry.second.taken; });
  const Round before = here_.empty() ? next_ : here_.begin()->first;
  if (before == applied_before_) return;
  applied_before_ = before;
  say_complete();
}

/// To the line master, and to those before it, which are suspected: one that is, and lives on, may wait for this word,
/// and says nothing meanwhile by which it would be heard.
void LineAgent::say_complete() {
  said_[static_cast<std::size_t>(own_)] = applied_before_;
  if (applied_before_ == 0) return;
  const int master = line_master();
  for (int member = defect(Defect::grid_suspected_untold) ? master : 0; member <= master; ++member) {
    if (member == own_) continue;
    actions_.push_back({.kind = Action::Kind::complete, .round = applied_before_, .to = member});
  }
}

void LineAgent::peer_applied(int member, Round before, TimePoint now) {
  if (before >= started_) say_times_.push_back(now);
  if (defect(Defect::grid_completes_by_message)) return said_.push_back(before);
  Round& said = said_[static_cast<std::size_t>(member)];
  said = std::max(said, before);
}

void LineAgent::suspect(int member, bool suspected) {
  const int before = line_master();
  suspected ? suspected_.insert(member) : suspected_.erase(member);
  if (line_master() != before && !defect(Defect::grid_next_master_untold)) say_complete();
}

void LineAgent::reached(int member) {
  if (member >= line_master() || applied_before_ == 0 || defect(Defect::grid_suspected_untold)) return;
  actions_.push_back({.kind = Action::Kind::complete, .round = applied_before_, .to = member});
}

int LineAgent::line_master() const {
  for (int member = 0; member < members(); ++member) {
    if (member == own_ || !suspected_.contains(member)) return member;
  }
  return own_;
}

/// As many members have applied all rounds before this one.
Round LineAgent::applied_by(int members) const {
  std::vector<Round> said = said_;
  std::ranges::nth_element(said, said.begin() + members - 1, std::greater<>());
  return said[static_cast<std::size_t>(members - 1)];
}

void LineAgent::look(TimePoint now) {
  look_by_ = TimePoint::never();
  if (line_master() != own_) return enough_since_.reset();
  started_ = std::max(started_, next_);
  const Round by_all = applied_by(members()), by_enough = applied_by(needed(options_.advance, members()));
  if (by_enough < started_) return enough_since_.reset();
  if (!enough_since_) enough_since_ = now;
  if (by_all < started_) look_by_ = *enough_since_ + patience(for_completes_);
  if (by_all < started_ && now < look_by_) return;
  look_by_ = TimePoint::never();
  for_completes_.learn(std::exchange(say_times_, {}));
  enough_since_.reset();
  const Round round = by_all >= started_ ? by_all : by_enough;
  started_ = round + 1;
  actions_.push_back({.kind = Action::Kind::start, .round = round});
  open(round);
}

void LineAgent::learn(const std::vector<TimePoint>& contributions, const std::vector<TimePoint>& means) {
  for_contributions_.learn(contributions);
  for_means_.learn(means);
}

RankSet LineAgent::behind() const {
  RankSet behind(members());
  for (int member = 0; member < members(); ++member) {
    if (said_[static_cast<std::size_t>(member)] < next_) behind.insert(member);
  }
  return behind;
}

int LineAgent::in_flight() const {
  return static_cast<int>(std::ranges::count_if(here_, [](const auto& entry) { return !entry.second.is_over(); }));
}

}  // namespace stretto
