#include "stretto/papers/servers/shard.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

Shard::Shard(const ServerOptions& options, int ranks, bool decides)
    : mode_(options.mode),
      staleness_(options.staleness),
      enough_(static_cast<std::size_t>(options.enough)),
      decides_(decides),
      seats_(static_cast<std::size_t>(ranks)) {}

// ---- requests ----

void Shard::asked(int rank, std::uint64_t clock, Version version) {
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  STRETTO_CHECK(!seat.waits, "rank ", rank, " asks a second time");
  seat.waits = true;
  seat.asked = clock;
  seat.wanted = defect(Defect::get_without_version) ? 0 : version;
}

void Shard::pushed(int rank, std::uint64_t clock, Version base) {
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  STRETTO_CHECK(!seat.push && seat.clock == clock, "rank ", rank, " pushes step ", clock, " after ", seat.clock);
  ++seat.clock;
  if (mode_ == ServerMode::k_sync && base < version_ && !defect(Defect::count_late_pushes)) {
    late_.push_back(rank);
  } else {
    seat.push = base;
  }
}

void Shard::ended(int rank, std::uint64_t clock) {
  seats_[static_cast<std::size_t>(rank)].end = clock;
}

void Shard::committed(Version version, std::vector<int> ranks, bool last) {
  if (!decides_) commits_.push_back({version, std::move(ranks), last});
}

// ---- what follows from them ----

std::optional<ShardAction> Shard::next() {
  if (after_) return std::exchange(after_, std::nullopt);
  if (!late_.empty()) {
    const int rank = late_.front();
    late_.pop_front();
    return ShardAction{.kind = ShardAction::Kind::drop, .rank = rank};
  }
  if (auto action = close()) return action;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    Seat& seat = seats_[rank];
    ShardAction answer{.kind = ShardAction::Kind::answer, .rank = static_cast<int>(rank)};
    if (seat.waits && may_answer(seat)) {
      seat.waits = false;
      answer.clock = seat.answered = seat.asked;
      return answer;
    }
    if (seat.end && !seat.told_end && all_done()) {
      seat.told_end = true;
      answer.clock = phases_;
      answer.last = true;
      return answer;
    }
  }
  if (std::ranges::all_of(seats_, &Seat::told_end)) begin_phase();
  return std::nullopt;
}

bool Shard::done(const Seat& seat) {
  return seat.end && seat.clock == *seat.end;
}

bool Shard::all_done() const {
  if (defect(Defect::round_without_acknowledgement))
    return std::ranges::all_of(seats_, [](const Seat& seat) { return seat.end.has_value(); });
  const bool known = mode_ != ServerMode::k_sync || last_known_ || defect(Defect::shards_decide_alone);
  return known && std::ranges::all_of(seats_, [](const Seat& seat) { return done(seat) && !seat.push; });
}

void Shard::begin_phase() {
  for (Seat& seat : seats_) {
    seat.start = seat.answered = seat.clock;
    seat.end.reset();
    seat.told_end = false;
  }
  last_known_ = false;
  ++phases_;
}

bool Shard::may_answer(const Seat& seat) const {
  switch (mode_) {
    case ServerMode::sync:
    case ServerMode::k_sync: return version_ >= seat.wanted;
    case ServerMode::async: return applied(seat) >= seat.asked;
    case ServerMode::ssp: return applied(seat) >= seat.asked && seat.asked - seat.start <= slowest() + staleness_;
  }
  return false;
}

/// The fewest steps of this phase that the value contains of a rank that is not done.
std::uint64_t Shard::slowest() const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max() - staleness_;
  for (const Seat& seat : seats_) {
    if (!done(seat) || seat.push || defect(Defect::count_done_clocks))
      least = std::min(least, applied(seat) - seat.start);
  }
  return least;
}

/// ssp: whether no rank can be answered any more at a clock to which this gradient would be too new.
bool Shard::may_add(const Seat& seat) const {
  if (mode_ != ServerMode::ssp) return true;
  const std::uint64_t step = seat.clock - 1 - seat.start;
  return std::ranges::all_of(
      seats_, [&](const Seat& other) { return other.answered - other.start + staleness_ >= step || done(other); });
}

std::vector<int> Shard::pushers() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (seats_[rank].push) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

ShardAction Shard::take(std::vector<int> ranks) {
  for (const int rank : ranks) seats_[static_cast<std::size_t>(rank)].push.reset();
  return {.kind = ShardAction::Kind::apply, .version = ++version_, .ranks = std::move(ranks)};
}

/// The next version, if its gradients are there.
std::optional<ShardAction> Shard::close() {
  switch (mode_) {
    case ServerMode::sync: {
      const bool all = std::ranges::all_of(seats_, [](const Seat& seat) { return seat.push || done(seat); });
      std::vector<int> ranks = pushers();
      if (!all || ranks.empty()) return std::nullopt;
      return take(std::move(ranks));
    }
    case ServerMode::async:
    case ServerMode::ssp:
      for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
        if (seats_[rank].push && may_add(seats_[rank])) return take({static_cast<int>(rank)});
      }
      return std::nullopt;
    case ServerMode::k_sync: return decides_ || defect(Defect::shards_decide_alone) ? close_first() : close_committed();
  }
  return std::nullopt;
}

/// k_sync, bucket 0: as soon as enough gradients are there, or all that can still come.
std::optional<ShardAction> Shard::close_first() {
  std::vector<int> ranks = pushers();
  const auto able = static_cast<std::size_t>(
      std::ranges::count_if(seats_, [](const Seat& seat) { return seat.push || !done(seat); }));
  const std::size_t enough = defect(Defect::keep_k) ? enough_ : std::min(enough_, able);
  if (able == 0 && decides_ && !last_known_) {
    last_known_ = true;
    return ShardAction{.kind = ShardAction::Kind::commit, .version = version_, .last = true};
  }
  if (ranks.empty() || ranks.size() < enough) return std::nullopt;
  if (!decides_) return take(std::move(ranks));  // planted: shards_decide_alone
  const ShardAction commit{.kind = ShardAction::Kind::commit, .version = version_, .ranks = ranks};
  after_ = take(std::move(ranks));
  return commit;
}

/// k_sync, other buckets: exactly the gradients that the shard of bucket 0 has named, once they are here.
std::optional<ShardAction> Shard::close_committed() {
  if (commits_.empty()) return std::nullopt;
  const Commit& commit = commits_.front();
  STRETTO_CHECK(commit.version == version_, "version ", commit.version, " is decided, and this is ", version_);
  const auto here = [&](int rank) { return seats_[static_cast<std::size_t>(rank)].push.has_value(); };
  if (!std::ranges::all_of(commit.ranks, here)) return std::nullopt;
  if (commit.last) {
    last_known_ = true;
    commits_.pop_front();
    return next();
  }
  ShardAction apply = take(commit.ranks);
  commits_.pop_front();
  for (const int rank : pushers()) {
    late_.push_back(rank);
    seats_[static_cast<std::size_t>(rank)].push.reset();
  }
  return apply;
}

bool Shard::idle() const {
  return std::ranges::all_of(
      seats_, [](const Seat& seat) { return seat.clock == seat.start && !seat.waits && !seat.end.has_value(); });
}

std::vector<int> Shard::waits_for() const {
  std::vector<int> ranks;
  const std::uint64_t least = slowest();
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    const Seat& seat = seats_[rank];
    if (seat.push || done(seat)) continue;
    const bool asks = std::ranges::any_of(seats_, [](const Seat& other) { return other.waits; });
    if (mode_ != ServerMode::ssp || !asks || applied(seat) - seat.start == least)
      ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace stretto
