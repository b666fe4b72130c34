#include "stretto/check/groups/group_oracle.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/collective/groups/groups.h"

namespace stretto {
namespace {

constexpr std::uint64_t kFactors = 97;  // the tail repeats with this period

std::uint64_t number_at(std::span<const std::byte> bytes, std::uint64_t i) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + 8 * i, 8);
  return value;
}

}  // namespace

std::string GroupJob::to_string() const {
  std::string out =
      text(ranks, " ranks in ", options.order == GroupOrder::fixed ? "fixed " : "", "groups of ", options.group_size,
           ", full every ", options.full_every, ", quorum ", options.quorum,
           options.late == LateRank::jumps ? ", late ranks jump" : "",
           options.late_sum == LateSum::own ? ", sums of the own iteration" : "",
           stale == StaleRule::mix     ? ", mix"
           : stale == StaleRule::carry ? ", carry"
                                       : ", moves",
           publish_after ? ", published after" : "", text_of_boards(machines, options.seats), ", batches");
  for (const std::uint64_t each : batches) out += text(" ", each);
  return out + text("; ", length, " elements");
}

std::vector<BucketSpec> GroupModels::buckets() const {
  return {{DataType::int64, 1 + static_cast<std::uint64_t>(job_.ranks)}, {DataType::int64, job_.length}};
}

void GroupModels::write(Contribution& model, int rank, std::uint64_t version, Field weight, int part) const {
  const auto tail = model.as<std::int64_t>(1);
  const std::size_t half = tail.size() / 2;
  for (std::size_t i = part == 0 ? 0 : half; i < (part == 0 ? half : tail.size()); ++i) {
    tail[i] = static_cast<std::int64_t>((weight * Field(2 * (i % kFactors) + 1)).value());
  }
  if (part == 0) return;
  const auto head = model.as<std::int64_t>(0);
  std::ranges::fill(head, 0);
  head[0] = static_cast<std::int64_t>(weight.value());
  head[1 + static_cast<std::size_t>(rank)] = static_cast<std::int64_t>(version);
}

GroupModels::Content GroupModels::read(std::span<const std::span<const std::byte>> sum) const {
  Content content{.versions = {}, .weight = Field(number_at(sum[0], 0)), .whole = true};
  for (int rank = 0; rank < job_.ranks; ++rank) {
    content.versions.push_back(number_at(sum[0], 1 + static_cast<std::uint64_t>(rank)));
  }
  for (std::uint64_t i = 0; i < job_.length; ++i) {
    if (Field(number_at(sum[1], i)) != content.weight * Field(2 * (i % kFactors) + 1)) content.whole = false;
  }
  return content;
}

GroupOracle::GroupOracle(const GroupJob& job, JobFinding& finding)
    : job_(job),
      models_(job),
      groups_(job.ranks, job.options.group_size, job.options.order),
      // On a board a rank may get the result of a full round while the next block is under way among others.
      most_apart_(job.on_board() ? 2 * job.options.full_every - 1 : job.options.full_every),
      finding_(finding),
      at_(static_cast<std::size_t>(job.ranks)) {
  if (const auto mixing = mixing_number(groups_); mixing && !job.on_board())
    most_apart_ = std::min<Round>(most_apart_, static_cast<Round>(*mixing));
}

GroupOracle::Expected& GroupOracle::expected(Round round) {
  while (rounds_.size() <= round) {
    Expected next{.group_of = full(rounds_.size()) ? std::vector<int>(at_.size(), 0) : groups_.numbers(rounds_.size()),
                  .groups = {}};
    next.groups.resize(1 + static_cast<std::size_t>(std::ranges::max(next.group_of)));
    rounds_.push_back(std::move(next));
  }
  return rounds_[round];
}

void GroupOracle::published(int rank, std::uint64_t version, Round ticket, Field weight) {
  auto& publications = at_[static_cast<std::size_t>(rank)].publications;
  if (version != publications.size() + 1)
    violated(text("rank ", rank, " publishes version ", version, " out of order"));
  publications.push_back({ticket, weight});
  steps_ = steps_ + weight;
}

void GroupOracle::settled(int rank, Round ticket, Field step) {
  RankState& at = at_[static_cast<std::size_t>(rank)];
  if (at.has != at.publications.size()) ++put_on_means_;
  if (at.has == at.publications.size()) ++at.has;
  at.publications.push_back({ticket, at.publications.back().weight + step});
  steps_ = steps_ + step;
}

/// G11: a model whose round is over for another member counts as the mean that it is about to become.
void GroupOracle::stands(const std::vector<Field>& weights) {
  Field sum;
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    const RankState& at = at_[rank];
    Field weight = weights[rank];
    if (at.in_sum) {
      const Expected& expected = rounds_[*at.in_sum];
      const Group& group = expected.groups[static_cast<std::size_t>(expected.group_of[rank])];
      if (group.checked) weight = group.mean;
    }
    sum = sum + weight;
  }
  if (sum != steps_) violated("G11: the models that stand have moved by something else than all steps once");
}

/// G8: a rank, or a quorum of them, waits at a group round when it starts, or all have drained.
void GroupOracle::check_start(Round round) {
  if (full(round)) return;
  const bool all_drained = std::ranges::all_of(at_, &RankState::drained);
  const auto waits = [round](const RankState& rank) { return rank.waits_at == round; };
  const auto come = std::ranges::count_if(at_, [&](const RankState& rank) { return waits(rank) || rank.drained; });
  const bool started = std::ranges::any_of(at_, waits) && come >= job_.options.quorum;
  if (!all_drained && !started) {
    violated(text("G8: round ", round, " starts where ", come, " ranks have come or drained, and quorum is ",
                  job_.options.quorum));
  }
}

void GroupOracle::joined(int rank, Round round, std::uint64_t version) {
  const bool first = rounds_.size() <= round;
  expected(round);
  if (first) check_start(round);
  RankState& at = at_[static_cast<std::size_t>(rank)];
  if (last_ && round > *last_) violated(text("G9: round ", round, " begins after the last, ", *last_));
  if (at.versions.contains(round)) violated(text("G2: round ", round, " sums the model of rank ", rank, " twice"));
  at.versions[round] = version;
  if (version == 0) return;
  if (moves()) {
    at.in_sum = round;
    if (version != at.publications.size()) {
      return violated(text("G11: round ", round, " has version ", version, " of rank ", rank, ", of ",
                           at.publications.size(), " that have stood"));
    }
  }
  const Round ticket = at.publications[version - 1].ticket;
  // On a board a rank without batches passes over what is left of a block once no other rank is in it.
  const bool passed = (job_.on_board() && at.drained && at.used >= at.complete) || (moves() && at.drained);
  if (full(round) ? ticket != round && !passed
                  : round > ticket && round - ticket > job_.options.full_every - 1 && !(moves() && at.drained)) {
    violated(text("G4: rank ", rank, " brings a model of round ", ticket, " to round ", round));
  }
}

/// G1 and G2: the sum of a member.
void GroupOracle::check_sum(int rank, Round round, const GroupModels::Content& content) {
  const Expected& expected = rounds_[round];
  const int mine = expected.group_of[static_cast<std::size_t>(rank)];
  Field weight;
  for (std::size_t peer = 0; peer < at_.size(); ++peer) {
    const bool member = expected.group_of[peer] == mine;
    const std::uint64_t got = content.versions[peer];
    const auto joined = at_[peer].versions.find(round);
    const std::uint64_t want = member && joined != at_[peer].versions.end() ? joined->second : 0;
    if (got != want || (member && want == 0)) {
      return violated(text("G2: round ", round, " of rank ", rank, " has version ", got, " of rank ", peer,
                           member ? ", which brought " : ", which is not in its group: ", want));
    }
    if (member) weight = weight + at_[peer].publications[want - 1].weight;
  }
  if (!content.whole || content.weight != weight) {
    violated(text("G2: round ", round, " of rank ", rank, " has a model that is torn or changed"));
  }
}

void GroupOracle::completed(int rank, const StandingSum& sum) {
  const Round round = sum.round;
  RankState& at = at_[static_cast<std::size_t>(rank)];
  // On a board the groups of different rounds do not wait for each other, and a model that moves is in all of them.
  const bool any_order = job_.on_board() && moves();
  if (!any_order && (job_.on_board() ? round < at.complete : round != at.complete)) {
    violated(text("G3: rank ", rank, " completes round ", round, " after ", at.complete));
  }
  at.complete = std::max(at.complete, round + 1);
  const GroupModels::Content content = models_.read(sum.buckets);
  if (moves()) {
    check_moving_sum(rank, round, content);
  } else {
    check_sum(rank, round, content);
  }
  if (finding_.violation) return;
  Expected& expected = rounds_[round];
  Group& group = expected.groups[static_cast<std::size_t>(expected.group_of[static_cast<std::size_t>(rank)])];
  if (group.checked && (group.header != *sum.header || group.content != content)) {
    violated(text("G1: rank ", rank, " has another header or sum of round ", round));
  }
  group.checked = true;
  group.content = content;
  group.header = *sum.header;
  if (full(round) && sum.header->drained.all() && !last_) last_ = round;
}

/// G1 and G2 of models that move: the sum of what stood, or, in shared memory, its mean, which comes to stand.
void GroupOracle::check_moving_sum(int rank, Round round, const GroupModels::Content& content) {
  Expected& expected = rounds_[round];
  const int mine = expected.group_of[static_cast<std::size_t>(rank)];
  Field sum, members;
  for (std::size_t peer = 0; peer < at_.size(); ++peer) {
    if (expected.group_of[peer] != mine) continue;
    const auto joined = at_[peer].versions.find(round);
    if (joined == at_[peer].versions.end() || joined->second == 0) {
      return violated(text("G2: round ", round, " of rank ", rank, " lacks rank ", peer));
    }
    sum = sum + at_[peer].publications[joined->second - 1].weight;
    members = members + Field(1);
  }
  if (!content.whole || content.weight != (job_.shares_memory() ? sum / members : sum)) {
    return violated(text("G2: round ", round, " of rank ", rank, " is not the sum of what stood on its members"));
  }
  expected.groups[static_cast<std::size_t>(mine)].mean = sum / members;
  RankState& at = at_[static_cast<std::size_t>(rank)];
  at.in_sum.reset();
  at.publications.push_back({at.publications.back().ticket, sum / members});
}

void GroupOracle::used(int rank, const GroupResult& result, Field before, Field after) {
  RankState& at = at_[static_cast<std::size_t>(rank)];
  if (result.round < at.used && (result.full || !moves()))
    return violated(text("G7: rank ", rank, " uses round ", result.round, " again"));
  for (Round round = at.used; round < result.round; ++round) {
    if (full(round)) violated(text("G7: rank ", rank, " passes over the full round ", round));
    ++passed_over_;
  }
  at.used = std::max(at.used, result.round + 1);
  const GroupModels::Content content = models_.read(result.sum);
  if (moves()) {
    at.has = at.publications.size();
    if (!content.whole || after != at.publications.back().weight) {
      violated(text("G6: rank ", rank, " has another model than what stands after round ", result.round));
    }
    return;
  }
  check_sum(rank, result.round, content);  // it may have been overwritten since
  if (finding_.violation) return;
  const std::uint64_t own = content.versions[static_cast<std::size_t>(rank)];
  const bool fresh = own == at.publications.size();
  if (!fresh) ++stale_;
  const std::vector<int>& group_of = rounds_[result.round].group_of;
  const auto members = std::ranges::count(group_of, group_of[static_cast<std::size_t>(rank)]);
  const Field n(static_cast<std::uint64_t>(members));
  Field want = content.weight / n;
  if (!fresh && !at.drained) {
    want = job_.stale == StaleRule::mix ? (content.weight + before) / (n + Field(1))
                                        : want + (before - at.publications[own - 1].weight);
  }
  if (after != want) {
    violated(text("G6: rank ", rank, " makes of round ", result.round, " another model than that with its own step ",
                  "once (its model in the sum: version ", own, " of ", at.publications.size(), ")"));
  }
}

/// G7 of sums of the own iteration: each has used that one.
void GroupOracle::exchanged(int rank, Round iteration) {
  RankState& at = at_[static_cast<std::size_t>(rank)];
  at.waits_at.reset();
  if (job_.options.late_sum == LateSum::own && at.used != iteration + 1) {
    violated(text("G7: rank ", rank, " has used sums of rounds before ", at.used, " after iteration ", iteration));
  }
}

void GroupOracle::look_at(int rank, const ProtocolState& s) {
  if (s.joined < s.complete || s.joined > s.complete + 1) {
    violated(text("G10: rank ", rank, " has joined ", s.joined, " rounds, ", s.complete, " are complete"));
  }
  if (s.ticket > s.complete + 1) violated(text("G10: rank ", rank, " is at round ", s.ticket, " of ", s.complete));
  for (const RankState& other : at_) {
    const Round apart = s.complete > other.complete ? s.complete - other.complete : other.complete - s.complete;
    if (apart > most_apart_) violated(text("G10: two ranks are ", apart, " rounds apart"));
  }
}

/// G5: what may go on has gone on. On a board nothing is under way but what ranks do that wait.
void GroupOracle::quiet(const std::vector<ProtocolState>& states) {
  if (job_.on_board()) return;
  Round activated = 0;
  for (const ProtocolState& state : states) activated = std::max(activated, state.activated);
  const auto can_join = [&](std::size_t rank, Round round) {
    const RankState& at = at_[rank];
    if (at.publications.empty()) return false;
    if (full(round)) return at.waits_at == round;
    return round < activated && (round == 0 || !full(round - 1) || at.used >= round);
  };
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const Round round = states[rank].complete;
    if (last_ && round > *last_) continue;
    const std::vector<int> group_of = expected(round).group_of;
    // A board joins a round once all its ranks may, and then for all of them.
    bool all = true;
    for (std::size_t peer = 0; peer < states.size() && all; ++peer) {
      if (group_of[peer] != group_of[rank] && job_.machines.over == Over::messages) continue;
      all = states[peer].complete > round || (states[peer].complete == round && can_join(peer, round));
    }
    if (all) violated(text("G5: round ", round, " may be over, and rank ", rank, " has not got it"));
  }
}

void GroupOracle::ended(const std::vector<bool>& done, const std::vector<Field>& models,
                        const std::vector<std::uint64_t>& steps) {
  for (std::size_t rank = 0; rank < done.size(); ++rank) {
    if (!done[rank]) return violated(text("G9: nothing moves, and rank ", rank, " has not finished"));
    if (steps[rank] != job_.batches[rank]) violated(text("G9: rank ", rank, " has made ", steps[rank], " batches"));
    if (models[rank] != models[0]) violated(text("G9: ranks 0 and ", rank, " end with different models"));
    if (!last_ || at_[rank].complete != *last_ + 1) violated(text("G9: rank ", rank, " ends apart"));
    if (last_ && at_[rank].used != *last_ + 1) violated(text("G7: rank ", rank, " has not used the last round"));
  }
}

}  // namespace stretto
