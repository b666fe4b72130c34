#include "stretto/check/grid/grid_node.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/collective/schedules/part.h"

namespace stretto {

void GridNode::enter(const std::vector<Place>& places, bool together, TimePoint now) {
  std::vector<Side> before = std::exchange(sides_, {});
  std::vector<std::size_t> fresh;
  for (const Place& place : places) {
    const auto same = std::ranges::find(before, place.line, [](const Side& side) { return side.place.line; });
    if (same == before.end()) {
      const auto last = std::ranges::find(before, place.dimension, [](const Side& s) { return s.place.dimension; });
      fresh.push_back(sides_.size());
      sides_.push_back(made_anew(place, last == before.end() ? nullptr : &*last));
    } else {
      sides_.push_back(*same);
    }
  }
  for (const Side& side : before) {
    const bool stays = std::ranges::any_of(places, [&](const Place& place) { return place.line == side.place.line; });
    if (!stays) lines_left_.push_back(side.place.line);
  }
  for (const std::size_t index : fresh) {
    Side& side = sides_[index];
    for (int member = 0; member < size(side); ++member) {
      if (suspects_.contains(side.place.members[static_cast<std::size_t>(member)])) side.agent.suspect(member, true);
      if (together) side.entered.insert(member);
    }
    side.agent.applied(version_);
    if (!together) tell_others(side, {.kind = LineWord::Kind::entered});
    do_actions(side, now);
  }
  for (const LineWord& word : std::exchange(ahead_, {})) receive(word, now);
}

/// `before`: the side of the line of this dimension that is left for it.
GridNode::Side GridNode::made_anew(const Place& place, const Side* before) const {
  const auto members = static_cast<int>(place.members.size());
  const bool keeps = defect(Defect::grid_rounds_kept) && before != nullptr && size(*before) == members &&
                     before->place.own == place.own;
  Side side{.place = place,
            .agent = keeps ? before->agent : LineAgent(place.own, members, options_),
            .entered = RankSet(members),
            .ways = keeps ? before->ways : LineWays(members, options_.rounds_in_flight)};
  side.entered.insert(place.own);
  if (keeps) side.held = before->held;
  if (before != nullptr) side.size_before = size(*before);
  if (before != nullptr && defect(Defect::grid_previous_kept)) side.previous = before->previous;
  side.previous.resize(place.members.size());
  return side;
}

LineOptions GridNode::options_of(const Side& side) const {
  LineOptions options = options_;
  if (!defect(Defect::grid_old_size) || side.size_before == 0) return options;
  for (double* share : {&options.reduce, &options.complete}) {
    *share = std::min(1.0, static_cast<double>(needed(*share, side.size_before)) / size(side));
  }
  return options;
}

GridNode::Side* GridNode::side_of(const LineWord& word) {
  const bool mixes = defect(Defect::grid_lists_mixed);
  const auto found = std::ranges::find_if(sides_, [&](const Side& side) {
    return side.place.line == word.line ||
           (mixes && side.place.dimension == word.dimension && word.from < size(side) && word.from != side.place.own);
  });
  return found == sides_.end() ? nullptr : &*found;
}

FieldVector GridNode::slice_of(const Side& side, const FieldVector& model, int member) const {
  const Part its = part(model.size(), member, size(side));
  return {model.begin() + static_cast<std::ptrdiff_t>(its.begin), model.begin() + static_cast<std::ptrdiff_t>(its.end)};
}

void GridNode::add_to(Held& held, const FieldVector& slice) {
  const bool fits = held.sum.empty() || held.sum.size() == slice.size();
  if (!fits) return around_.oracle.violated("a slice of another size is added (L2)");
  add(held.sum, slice);
  ++held.added;
}

LineWord GridNode::named(const Side& side, LineWord word) const {
  word.line = side.place.line;
  word.dimension = side.place.dimension;
  word.from = side.place.own;
  return word;
}

void GridNode::tell_others(const Side& side, LineWord word) {
  word = named(side, word);
  for (int member = 0; member < size(side); ++member) {
    const bool is_told_by_data = word.kind == LineWord::Kind::start && side.ways.is_busy(member);
    if (member == word.from || is_told_by_data) continue;
    around_.send(side.place.members[static_cast<std::size_t>(member)], word);
  }
}

/// A contribution or a mean whose turn it is.
void GridNode::send(Side& side, int member, const LineWord& word) {
  const int to = side.place.members[static_cast<std::size_t>(member)];
  around_.send(to, word);
  if (around_.narrow) return;
  // Nothing waits where messages leave at once.
  (void)side.ways.sent(word.round, member);
}

void GridNode::left(int to, const LineWord& word, TimePoint now) {
  const bool is_data = word.kind == LineWord::Kind::contribution || word.kind == LineWord::Kind::mean;
  const auto side = std::ranges::find(sides_, word.line, [](const Side& its) { return its.place.line; });
  if (!around_.narrow || !is_data || side == sides_.end()) return;
  const auto member = static_cast<int>(std::ranges::find(side->place.members, to) - side->place.members.begin());
  const auto next = side->ways.sent(word.round, member);
  if (!side->ways.is_busy(member)) side->agent.reached(member);
  do_actions(*side, now);
  if (!next) return;
  const auto waited = side->waiting.extract({*next, member});
  for (const LineWord& goes : waited.mapped()) send(*side, member, goes);
}

void GridNode::receive(const LineWord& word, TimePoint now) {
  Side* const found = side_of(word);
  if (found == nullptr) {
    const bool is_old = std::ranges::count(lines_left_, word.line) > 0;
    if (!is_old && !defect(Defect::grid_newer_dropped)) ahead_.push_back(word);
    return;
  }
  Side& side = *found;
  switch (word.kind) {
    case LineWord::Kind::entered: side.entered.insert(word.from); break;
    case LineWord::Kind::start: side.agent.started(word.round); break;
    case LineWord::Kind::complete: side.agent.peer_applied(word.from, word.round, now); break;
    case LineWord::Kind::contribution:
    case LineWord::Kind::mean: {
      const std::optional<Round> round = side.agent.admit(word.round);
      do_actions(side, now);
      const bool brings = word.slice != nullptr;
      if (word.kind == LineWord::Kind::contribution && brings) {
        side.previous[static_cast<std::size_t>(word.from)] = word.slice->values;
      }
      if (!round) {
        ++around_.counts.late;
        break;
      }
      Held& held = side.held.at(*round);
      if (word.kind == LineWord::Kind::mean) {
        if (held.round.is_complete()) ++around_.counts.late_means;
        held.means[static_cast<std::size_t>(word.from)] = *word.slice;
        held.round.averaged(word.from, now);
      } else if (!held.round.contributed(word.from, brings, now)) {
        ++around_.counts.late;
      } else if (brings) {
        add_to(held, word.slice->values);
      }
    }
  }
  do_actions(side, now);
}

void GridNode::do_actions(Side& side, TimePoint now) {
  for (const LineAgent::Action& action : side.agent.take_actions()) {
    switch (action.kind) {
      case LineAgent::Action::Kind::force: {
        Held& held = side.held.at(action.round);
        if (held.round.due_at_force() == LineRound::Due::reduce) reduce(side, action.round, held, now);
        complete(side, action.round, held, true);
        break;
      }
      case LineAgent::Action::Kind::drop:
        ++around_.counts.dropped;
        around_.oracle.dropped(side.place.line, side.place.own, action.round);
        side.held.erase(action.round);
        break;
      case LineAgent::Action::Kind::open: open(side, action, now); break;
      case LineAgent::Action::Kind::start:
        around_.oracle.started(side.place.line, side.place.own, action.round);
        tell_others(side, {.kind = LineWord::Kind::start, .round = action.round});
        break;
      case LineAgent::Action::Kind::complete:
        if (action.to < side.agent.line_master() && side.ways.is_busy(action.to)) break;
        around_.send(side.place.members[static_cast<std::size_t>(action.to)],
                     named(side, {.kind = LineWord::Kind::complete, .round = action.round}));
    }
  }
}

void GridNode::open(Side& side, const LineAgent::Action& action, TimePoint now) {
  const bool brings = action.version > 0;
  if (!brings) ++around_.counts.nulls;
  Held& held =
      side.held
          .insert_or_assign(action.round, Held{.round = LineRound(side.place.own, size(side), options_of(side),
                                                                  side.agent.patience_for_contributions(),
                                                                  side.agent.patience_for_means(), brings, now),
                                               .own = brings ? published_ : nullptr,
                                               .sum = {},
                                               .means = {}})
          .first->second;
  held.means.resize(static_cast<std::size_t>(size(side)));
  around_.oracle.opened(side.place.line, side.place.own, action.round, action.version, held.own);
  if (brings) add_to(held, slice_of(side, *held.own, side.place.own));
  const auto most = static_cast<Round>(options_.rounds_in_flight);
  for (const Round past : side.ways.open_rounds()) {
    if (past + most <= action.round) side.ways.end(past);
  }
  std::erase_if(side.waiting, [&](const auto& entry) { return entry.first.first + most <= action.round; });
  side.ways.open(action.round);
  for (int member = 0; member < size(side); ++member) {
    if (member == side.place.own) continue;
    LineWord word = named(side, {.kind = LineWord::Kind::contribution, .round = action.round});
    if (brings) word.slice = std::make_shared<SliceMean>(SliceMean{slice_of(side, *held.own, member), {}});
    if (side.ways.may_send(action.round, member)) {
      send(side, member, word);
    } else {
      ++around_.counts.held_back;
      side.waiting[{action.round, member}] = {word};
    }
  }
}

void GridNode::reduce(Side& side, Round round, Held& held, TimePoint now) {
  if (!held.round.come().all()) ++around_.counts.reduced_without;
  std::map<int, FieldVector> previous;
  if (options_.missing == Missing::previous) {
    for (int member = 0; member < size(side); ++member) {
      const FieldVector& last = side.previous[static_cast<std::size_t>(member)];
      if (last.empty() || member == side.place.own || held.round.contributors().contains(member)) continue;
      ++around_.counts.previous;
      previous[member] = last;
      add_to(held, last);
    }
  }
  SliceMean mean{held.sum, held.round.contributors()};
  for (Field& value : mean.values) value = value / Field(static_cast<std::uint64_t>(held.added));
  around_.oracle.reduced(side.place.line, side.place.own, round, mean, held.round.come(), previous);
  held.round.reduced(now);
  const LineWord word = named(
      side, {.kind = LineWord::Kind::mean, .round = round, .slice = std::make_shared<SliceMean>(std::move(mean))});
  for (const int member : side.ways.average(round).members()) send(side, member, word);
  for (auto& [where, words] : side.waiting) {
    if (where.first == round) words.push_back(word);
  }
}

void GridNode::complete(Side& side, Round round, Held& held, bool forced) {
  if (forced) ++around_.counts.forced;
  if (!held.round.means().all()) ++around_.counts.completed_without;
  held.round.completed();
  around_.oracle.completed(side.place.line, side.place.own, round, held.round.means(), forced);
  side.agent.completed(round);
}

/// The own slice is taken from where it was summed.
bool GridNode::apply(Side& side, Round round, Held& held) {
  around_.oracle.took(side.place.line, side.place.own, round);
  if (held.round.is_reduced()) {
    SliceMean own{held.sum, held.round.contributors()};
    for (Field& value : own.values) value = value / Field(static_cast<std::uint64_t>(held.added));
    held.means[static_cast<std::size_t>(side.place.own)] = std::move(own);
  }
  bool moves = false;
  for (int member = 0; member < size(side); ++member) {
    const auto& mean = held.means[static_cast<std::size_t>(member)];
    const bool carries = options_.update == ElasticUpdate::carry;
    if (!mean || mean->values.empty() || (carries && !mean->contributors.contains(side.place.own))) continue;
    if (carries && held.own == nullptr) {
      around_.oracle.violated("a mean has what this node has not brought (L2)");
      continue;
    }
    const FieldVector from = slice_of(side, carries ? *held.own : model_, member);
    if (from.size() != mean->values.size()) {
      around_.oracle.violated("a mean of another size (L2)");
      continue;
    }
    FieldVector by = mean->values;
    add(by, from, -Field(1));
    for (Field& value : by) value = value * alpha_;
    const Part its = part(model_.size(), member, size(side));
    for (std::uint64_t i = 0; i < its.count(); ++i) model_[its.begin + i] = model_[its.begin + i] + by[i];
    around_.oracle.moved(side.place.line, side.place.own, round, member, *mean, from, by);
    moves = true;
  }
  side.agent.learn(held.round.contributions_came(), held.round.means_came());
  return moves;
}

void GridNode::at_boundary(const FieldVector* step, bool may_apply, TimePoint now) {
  if (step != nullptr) add(model_, *step);
  bool changed = step != nullptr;
  for (Side& side : sides_) {
    if (model_.empty() || !may_apply) break;
    for (const Round round : side.agent.take()) {
      changed = apply(side, round, side.held.at(round)) || changed;
      side.held.erase(round);
    }
  }
  if (changed) {
    published_ = std::make_shared<const FieldVector>(model_);
    ++version_;
  }
  for (Side& side : sides_) {
    if (may_apply) side.agent.applied(version_);
    do_actions(side, now);
  }
}

void GridNode::suspect(int node, bool suspected, TimePoint now) {
  if (suspected) {
    suspects_.insert(node);
  } else {
    suspects_.erase(node);
  }
  for (Side& side : sides_) {
    const auto found = std::ranges::find(side.place.members, node);
    if (found == side.place.members.end()) continue;
    side.agent.suspect(static_cast<int>(found - side.place.members.begin()), suspected);
    do_actions(side, now);
  }
}

TimePoint GridNode::look(TimePoint now) {
  TimePoint next = TimePoint::never();
  for (Side& side : sides_) next = std::min(next, look(side, now));
  return next;
}

TimePoint GridNode::look(Side& side, TimePoint now) {
  if (side.entered.all()) side.agent.look(now);
  do_actions(side, now);
  TimePoint next = side.agent.look_by();
  for (auto& [round, held] : side.held) {
    if (held.round.due(now) == LineRound::Due::reduce) reduce(side, round, held, now);
    if (held.round.due(now) == LineRound::Due::complete) complete(side, round, held, false);
    next = std::min(next, held.round.due_by());
  }
  return next;
}

bool GridNode::is_line_master(int line) const {
  return std::ranges::any_of(
      sides_, [&](const Side& side) { return side.place.line == line && side.agent.line_master() == side.place.own; });
}

std::vector<GridNode::Progress> GridNode::progress() const {
  std::vector<Progress> out;
  for (const Side& side : sides_) {
    out.push_back({side.place.line, side.agent.next(), side.agent.applied_before()});
  }
  return out;
}

}  // namespace stretto
