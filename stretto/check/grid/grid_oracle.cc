#include "stretto/check/grid/grid_oracle.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/collective/schedules/part.h"

namespace stretto {

namespace {

FieldVector slice_of(const FieldVector& model, int slice, int slices) {
  const Part its = part(model.size(), slice, slices);
  return {model.begin() + static_cast<std::ptrdiff_t>(its.begin), model.begin() + static_cast<std::ptrdiff_t>(its.end)};
}

}  // namespace

void GridOracle::add_line(std::vector<int> members) {
  sides_.emplace_back(members.size());
  members_.push_back(std::move(members));
}

/// Whether a member has brought these values to a slice in some round of the line.
bool GridOracle::was_brought(int line, int member, int slice, const FieldVector& values) const {
  for (auto at = facts_.lower_bound({line, 0}); at != facts_.end() && at->first.first == line; ++at) {
    const auto& models = at->second.models;
    if (models.empty() || models[static_cast<std::size_t>(member)] == nullptr) continue;
    if (slice_of(*models[static_cast<std::size_t>(member)], slice, size(line)) == values) return true;
  }
  return false;
}

std::string GridOracle::name(int line, int member, Round round) const {
  const auto& nodes = members_[static_cast<std::size_t>(line)];
  return text("round ", round, " of line ", line, " at node ", nodes[static_cast<std::size_t>(member)]);
}

void GridOracle::expect(bool holds, int line, int member, Round round, const char* what) {
  if (!holds) violated(text(name(line, member, round), ": ", what));
}

void GridOracle::opened(int line, int member, Round round, std::uint64_t version, Model model) {
  Side& here = side(line, member);
  expect(round >= here.next, line, member, round, "opens again");
  here.next = round + 1;
  here.open.insert(round);
  here.in_flight.insert(round);
  const auto most = static_cast<std::size_t>(options_.rounds_in_flight);
  expect(here.in_flight.size() <= most, line, member, round, "too many rounds are in flight (L4)");
  if (model != nullptr) {
    expect(version > 0, line, member, round, "contributes without a model (L9)");
    const bool is_first = here.versions.insert(version).second;
    expect(is_first || options_.update == ElasticUpdate::paper, line, member, round,
           "contributes a version twice (L5)");
  }
  Facts& f = facts(line, round);
  if (f.models.empty()) {
    f.models.resize(static_cast<std::size_t>(size(line)));
    f.slices.resize(f.models.size());
  }
  f.models[static_cast<std::size_t>(member)] = std::move(model);
}

void GridOracle::reduced(int line, int member, Round round, const SliceMean& mean, const RankSet& come,
                         const std::map<int, FieldVector>& previous) {
  expect(come.count() >= needed(options_.reduce, size(line)), line, member, round, "a mean of too few is sent (L3)");
  Facts& f = facts(line, round);
  if (f.slices.empty()) return expect(false, line, member, round, "is of another line (L2)");
  Slice& slice = f.slices[static_cast<std::size_t>(member)];
  expect(!slice.known, line, member, round, "a slice is averaged twice (L2)");
  slice = {.mean = mean, .known = true, .moved = RankSet(size(line)), .by = {}};
  FieldVector sum;
  for (const int other : mean.contributors.members()) {
    const Model& model = f.models[static_cast<std::size_t>(other)];
    if (model == nullptr) return expect(false, line, member, round, "has what nobody has brought to it (L2)");
    add(sum, slice_of(*model, member, size(line)));
  }
  for (const auto& [other, values] : previous) {
    expect(was_brought(line, other, member, values), line, member, round, "has what is not of its line (L2)");
    add(sum, values);
  }
  const auto added = static_cast<std::uint64_t>(mean.contributors.count()) + previous.size();
  for (Field& value : sum) value = value / Field(added);
  expect(sum == mean.values, line, member, round, "a slice is not the mean of what its contributors brought (L2)");
}

void GridOracle::completed(int line, int member, Round round, const RankSet& means, bool forced) {
  side(line, member).in_flight.erase(round);
  if (forced) return;
  const bool holds = means.contains(member) && means.count() >= needed(options_.complete, size(line));
  expect(holds, line, member, round, "is complete with too few means (L3)");
}

void GridOracle::took(int line, int member, Round round) {
  Side& here = side(line, member);
  expect(round >= here.taken, line, member, round, "is applied twice, or not in order (L5)");
  here.taken = round + 1;
  here.open.erase(round);
}

void GridOracle::moved(int line, int member, Round round, int slice, const SliceMean& mean, const FieldVector& from,
                       const FieldVector& by) {
  Facts& f = facts(line, round);
  if (f.slices.empty()) return expect(false, line, member, round, "is of another line (L2)");
  Slice& fact = f.slices[static_cast<std::size_t>(slice)];
  const bool same = fact.known && fact.mean.values == mean.values && fact.mean.contributors == mean.contributors;
  expect(same, line, member, round, "a slice differs from that which was averaged (L2)");
  expect(!fact.moved.contains(member), line, member, round, "a slice is applied twice (L5)");
  fact.moved.insert(member);
  if (options_.update == ElasticUpdate::paper) return;
  const Model& own = f.models[static_cast<std::size_t>(member)];
  const Part its = part(own == nullptr ? 0 : own->size(), slice, size(line));
  const bool is_own = own != nullptr && mean.contributors.contains(member) &&
                      std::equal(from.begin(), from.end(), own->begin() + static_cast<std::ptrdiff_t>(its.begin),
                                 own->begin() + static_cast<std::ptrdiff_t>(its.end));
  expect(is_own, line, member, round, "moves by a mean without its own contribution (L6)");
  add(fact.by, by);
  if (fact.moved != mean.contributors) return;
  const bool stays = std::ranges::all_of(fact.by, [](Field value) { return value == Field(); });
  expect(stays, line, member, round, "moves the sum of all models (L6)");
  fact.by.clear();
}

void GridOracle::started(int line, int member, Round round) {
  int applied = 0;
  for (int other = 0; other < size(line); ++other) {
    const Side& its = side(line, other);
    if ((its.open.empty() ? its.next : *its.open.begin()) >= round) ++applied;
  }
  expect(applied >= needed(options_.advance, size(line)), line, member, round,
         "is started before enough have applied the one before (L3)");
}

Field GridOracle::unsettled() const {
  Field sum;
  for (const auto& [where, f] : facts_) {
    for (const Slice& slice : f.slices) {
      for (const Field value : slice.by) sum = sum + value;
    }
  }
  return sum;
}

}  // namespace stretto
