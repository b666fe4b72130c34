#include "stretto/check/partial/oracle.h"

#include <algorithm>

namespace stretto {

Oracle::Oracle(const Scenario& scenario, JobFinding& finding)
    : RoundsOracle(scenario.ranks, scenario.options.max_lag, finding),
      scenario_(scenario),
      payload_(scenario),
      begun_(static_cast<std::size_t>(scenario.ranks)),
      made_(static_cast<std::size_t>(scenario.ranks)),
      taken_(static_cast<std::size_t>(scenario.ranks)),
      next_handed_(static_cast<std::size_t>(scenario.ranks)),
      rule_(scenario.options.policy, scenario.ranks, scenario.options.seed, scenario.options.full_every) {}

void Oracle::fill(Contribution& contribution, int rank, std::uint64_t deposit, std::size_t first,
                  std::size_t end) const {
  payload_.fill(contribution, rank, deposit, first, end);
}

Oracle::Expected& Oracle::expected(Round round) {
  while (rounds_.size() <= round) {
    rounds_.push_back({.round = rounds_.size(), .sum = RoundSum(scenario_, payload_)});
    rounds_.back().header.reset(scenario_.ranks);
  }
  return rounds_[round];
}

void Oracle::deposit_begins(int rank) {
  ++begun_[static_cast<std::size_t>(rank)];
}

void Oracle::deposit_made(int rank) {
  ++made_[static_cast<std::size_t>(rank)];
}

void Oracle::taken(int rank, Round round, const ContributionFacts* facts) {
  Expected& e = expected(round);
  note_start(e);
  ++e.joined;
  if (facts != nullptr) take(e, rank, *facts);
  while (settled_ < rounds_.size() && rounds_[settled_].joined == scenario_.ranks) settle(rounds_[settled_]);
}

void Oracle::take(Expected& e, int rank, const ContributionFacts& facts) {
  const auto r = static_cast<std::size_t>(rank);
  if (taken_[r] + facts.batches > begun_[r]) {
    violated(text("I3: round ", e.round, " takes ", facts.batches, " deposits of rank ", rank, ", which has ",
                  begun_[r] - taken_[r]));
  }
  for (std::uint64_t i = 0; i < facts.batches; ++i) e.sum.take(rank, payload_.value(rank, taken_[r] + i));
  taken_[r] += facts.batches;
  if (e.round - facts.oldest_base > max_lag()) {
    violated(text("I4: round ", e.round, " takes a deposit of rank ", rank, " with base ", facts.oldest_base,
                  ", staleness ", e.round - facts.oldest_base, " exceeds max_lag ", max_lag()));
  }
  RoundHeader mine(scenario_.ranks);
  (facts.oldest_base == e.round ? mine.fresh : mine.stale).insert(rank);
  mine.batches = facts.batches;
  mine.samples = facts.samples;
  mine.oldest_base = facts.oldest_base;
  mine.sum_of_bases = facts.sum_of_bases;
  e.header.merge(mine);
}

/// All ranks have joined: the result of the round is known now.
void Oracle::settle(Expected& e) {
  ++settled_;
  e.sum.settle();
  if (!e.header.empty()) model_.apply(e.sum.first(), e.header.batches, model_.batches);
  e.model = model_;
}

void Oracle::started(Round round, int come) {
  Expected& e = expected(round);
  e.come = come;
  note_start(e);
}

/// The first time that anything is heard of a round, it has just been started or joined.
void Oracle::note_start(Expected& e) {
  if (e.started) return;
  e.started = true;
  e.arrived = arrived_at(e.round);
  e.drained = all_drained();
}

/// Promise 3: the ranks that have come are enough for the round's policy. The last round needs none to have arrived: it
/// starts when all ranks have drained.
void Oracle::check_start(const Expected& e) {
  const RankSet come = e.arrived | e.drained;
  const bool last = e.drained.all();
  const auto wrong = [&](const std::string& what) {
    violated(text("I5: round ", e.round, " (", e.policy.to_string(), ") started ", what));
  };
  switch (e.policy.kind) {
    case Policy::Kind::solo:
      if (e.arrived.empty() && !last) wrong("before any rank had arrived at it");
      break;
    case Policy::Kind::majority: {
      const auto drawn = static_cast<int>(e.policy.initiator);
      if (!come.contains(drawn)) wrong(text("before the drawn rank ", drawn, " had come"));
      break;
    }
    case Policy::Kind::quorum:
    case Policy::Kind::deadline: {
      const auto wanted = static_cast<int>(e.policy.quorum);
      if (e.come < wanted) wrong(text("by a counter that knew of ", e.come, " ranks of ", wanted));
      if (come.count() < wanted) wrong(text("when ", come.count(), " ranks of ", wanted, " had come"));
      break;
    }
    case Policy::Kind::full: {
      const RankSet joined = e.header.arrived | e.header.drained;
      if (!joined.all()) wrong(text("and was joined by ", joined.count(), " ranks of ", scenario_.ranks));
      break;
    }
  }
}

/// Follows the policies from header to header, and expects each round to have the one that follows.
void Oracle::advance_rule(const Expected& e) {
  if (scenario_.options.delivery != Delivery::every) return;  // some headers are never handed over
  if (!(rule_.current() == e.policy)) {
    violated(text("round ", e.round, " has policy ", e.policy.to_string(), "; from the headers before it follows ",
                  rule_.current().to_string()));
  }
  rule_.advance(e.header);
  last_is_over_ = e.header.drained.all();
}

std::string Oracle::check_header(const Expected& e, const RoundResult& result) const {
  const RoundHeader& header = *result.header;
  if (header.batches != e.header.batches || header.samples != e.header.samples ||
      header.oldest_base != e.header.oldest_base || header.sum_of_bases != e.header.sum_of_bases) {
    return text("counts ", header.batches, " batches, ", e.header.batches, " were taken");
  }
  if (!(header.fresh == e.header.fresh) || !(header.stale == e.header.stale)) return "names other contributors";
  if (e.header_seen && (!(header.arrived == e.header.arrived) || !(header.drained == e.header.drained))) {
    return "differs from the one another rank was given";
  }
  return {};
}

void Oracle::handed_over(int rank, const RoundResult& result, const IntegerModel& model) {
  const auto r = static_cast<std::size_t>(rank);
  const bool latest = scenario_.options.delivery == Delivery::latest;
  if (latest ? result.round < next_handed_[r] : result.round != next_handed_[r]) {
    return violated(
        text("promise 6: rank ", rank, " is handed round ", result.round, " after ", next_handed_[r], " rounds"));
  }
  for (Round skipped = next_handed_[r]; skipped < result.round; ++skipped) {
    const Expected& e = expected(skipped);
    if (!e.header_seen || e.policy.kind != Policy::Kind::full) continue;
    return violated(text("rank ", rank, " is handed round ", result.round, " without ", skipped, ", which was full"));
  }
  next_handed_[r] = result.round + 1;
  Expected& e = expected(result.round);
  if (e.joined != scenario_.ranks) {
    return violated(
        text("round ", result.round, " is complete, ", e.joined, " of ", scenario_.ranks, " ranks have joined"));
  }
  if (const std::string fault = check_header(e, result); !fault.empty()) {
    return violated(text("I2: the header of round ", result.round, " on rank ", rank, " ", fault));
  }
  if (!e.header_seen) {
    e.header_seen = true;
    e.header.arrived = result.header->arrived;
    e.header.drained = result.header->drained;
    e.policy = result.policy;
    check_start(e);
    advance_rule(e);
  }
  for (std::size_t b = 0; b < result.buckets.size(); ++b) {
    const auto got = result.buckets[b];
    const std::uint64_t wanted = result.empty() ? 0 : scenario_.buckets[b].count * size_of(scenario_.buckets[b].type);
    if (got.size() != wanted) {
      return violated(
          text("round ", result.round, " on rank ", rank, ": bucket ", b, " has ", got.size(), " bytes of ", wanted));
    }
    if (!e.sum.is(b, got)) {
      return violated(text("promise 1/2: the sum of round ", result.round, " on rank ", rank, ", bucket ", b,
                           " is not that of the deposits it took"));
    }
  }
  if (!latest && !(model == e.model)) {
    violated(text("replicas: rank ", rank, " after round ", result.round, " has other weights than those applied"));
  }
}

void Oracle::look_at(int rank, const ProtocolState& s) {
  if (s.handed > s.complete || s.complete > s.joined || s.joined > s.activated || s.joined > s.handed + max_lag() ||
      s.ticket > s.handed) {
    violated(text("I1: rank ", rank, " has t ", s.ticket, ", h ", s.handed, ", c ", s.complete, ", s ", s.joined,
                  ", act ", s.activated, ", W ", max_lag()));
  }
  if (s.joined >= s.complete + 2) expected(s.complete).pipelined = true;
  if (s.joined < s.activated && s.joined >= s.handed + max_lag()) expected(s.joined).held = true;
}

void Oracle::quiet(const std::vector<ProtocolState>& states) {
  Round handed = ~Round{0};
  Round activated = 0;
  for (const auto& s : states) {
    handed = std::min(handed, s.handed);
    activated = std::max(activated, s.activated);
  }
  // A rank that has entered a full round waits for the others; the round need not complete before they have come.
  const bool entered = is_full(activated, states);
  const bool all_came = std::ranges::all_of(states, [](const auto& s) { return s.waiting || s.drained; });
  if (entered && !all_came) --activated;
  // Where only the newest result is kept, a full one must be taken before the next round.
  const Round ahead = scenario_.options.delivery == Delivery::latest ? 1 : max_lag();
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    if (states[rank].complete < std::min(activated, handed + ahead)) {
      violated(text("promise 5: nothing moves, round ", states[rank].complete, " is activated and not held, and rank ",
                    rank, " has not completed it"));
    }
  }
  if (scenario_.shares_memory()) check_sleepers(states);
  if (activated < handed + max_lag()) check_start_is_due(states);
}

/// Whether the newest round that has started, round `activated` − 1, is full.
bool Oracle::is_full(Round activated, const std::vector<ProtocolState>& states) const {
  // On several boards a rank's state tells the policy of rounds that its own board has completed.
  if (scenario_.shares_memory() && activated == rule_.next_round() + 1) {
    return rule_.current().kind == Policy::Kind::full;
  }
  return std::ranges::any_of(states, [&](const auto& s) { return s.full && s.complete + 1 == activated; });
}

/// Promise 5 for the open round: when nothing moves, its policy does not allow it to start. Not judged where its policy
/// is not known yet, since no application has been handed the header before it.
void Oracle::check_start_is_due(const std::vector<ProtocolState>& states) {
  const Round open = rule_.next_round();
  const bool known = scenario_.options.delivery == Delivery::every && !last_is_over_;
  const auto at_it = [&](const ProtocolState& s) { return s.complete == open && s.activated == open; };
  if (!known || !std::ranges::all_of(states, at_it)) return;
  RankSet arrived(scenario_.ranks);
  RankSet drained(scenario_.ranks);
  for (int rank = 0; rank < scenario_.ranks; ++rank) {
    const ProtocolState& s = states[static_cast<std::size_t>(rank)];
    if (s.waiting) arrived.insert(rank);
    if (s.drained) drained.insert(rank);
  }
  const Policy& policy = rule_.current();
  if (start_is_due(policy, arrived, drained)) {
    violated(text("promise 5: nothing moves, and round ", open, " (", policy.to_string(),
                  "), which is not held, has not ", "started with ", (arrived | drained).count(),
                  " ranks arrived or drained"));
  }
}

/// On a board: a rank that sleeps waits for a round that is not complete.
void Oracle::check_sleepers(const std::vector<ProtocolState>& states) {
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const std::optional<Round> round = waits_at(static_cast<int>(rank));
    if (round && states[rank].complete > *round) {
      violated(text("promise 5: nothing moves, and rank ", rank, " sleeps although round ", *round, " is complete"));
    }
  }
}

void Oracle::ended(const std::vector<bool>& done, const std::vector<ProtocolState>& states) {
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const auto& s = states[rank];
    if (!done[rank]) {
      return violated(text("I6: deadlock: rank ", rank, " waits with t ", s.ticket, ", h ", s.handed, ", c ",
                           s.complete, ", s ", s.joined, ", act ", s.activated));
    }
    if (s.complete != states[0].complete) {
      violated(text("I6: rank ", rank, " stops after ", s.complete, " rounds, rank 0 after ", states[0].complete));
    }
    if (next_handed_[rank] != s.complete || taken_[rank] != made_[rank]) {
      violated(text("promise 2: rank ", rank, " made ", made_[rank], " deposits, ", taken_[rank],
                    " were taken; it took ", next_handed_[rank], " of ", s.complete, " results"));
    }
  }
  std::size_t last = 0;
  for (std::size_t r = 0; r < rounds_.size(); ++r) {
    if (rounds_[r].header_seen && rounds_[r].header.drained.all() && last == 0) last = r + 1;
  }
  if (last != states[0].complete) {
    violated(text("the last round is the first that shows everyone drained, ", last, "; ", states[0].complete, " ran"));
  }
}

void Oracle::count_rounds() {
  finding().reached[11] += scenario_.crashed_rank >= 0;
  finding().reached[12] += scenario_.crashes_with_host;
  for (const auto& e : rounds_) {
    if (!e.header_seen) continue;
    ++finding().rounds;
    const bool counted[] = {e.pipelined,
                            scenario_.shares_memory(),
                            scenario_.machines.over == Over::boards,
                            scenario_.machines.members.hosts() > 1,
                            payload_.is_real(),
                            !(e.header.arrived | e.header.drained).all(),
                            !e.header.drained.empty(),
                            e.policy.kind == Policy::Kind::full,
                            e.held,
                            e.header.empty()};
    for (std::size_t i = 0; i < std::size(counted); ++i) finding().reached[i] += counted[i];
  }
}

}  // namespace stretto
