#include "stretto/papers/servers/server_oracle.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr std::uint64_t kMixing = 0x9e3779b97f4a7c15;

/// A number that belongs to one element of one gradient.
std::uint64_t number(int bucket, int rank, std::uint64_t step, std::uint64_t element) {
  std::uint64_t x =
      (step << 24) ^ (element << 12) ^ (static_cast<std::uint64_t>(rank) << 4) ^ static_cast<std::uint64_t>(bucket);
  x = (x + 1) * kMixing;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
  return x ^ x >> 32;
}

}  // namespace

std::uint64_t ServerJob::steps_before(std::size_t phase, int rank) const {
  std::uint64_t sum = 0;
  for (std::size_t p = 0; p < phase; ++p) sum += steps[p][static_cast<std::size_t>(rank)];
  return sum;
}

Version ServerJob::versions_before(std::size_t phase) const {
  Version sum = 0;
  for (std::size_t p = 0; p < phase; ++p) sum += *std::ranges::max_element(steps[p]);
  return sum;
}

std::size_t ServerJob::phase_of(int rank, std::uint64_t step) const {
  std::size_t phase = 0;
  while (steps_before(phase + 1, rank) <= step) ++phase;
  return phase;
}

ServerOracle::ServerOracle(const ServerJob& job, JobFinding& finding)
    : job_(job), buckets_(job.elements.size()), ranks_(static_cast<std::size_t>(job.ranks)), finding_(finding) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].values = {std::vector<std::uint64_t>(job.elements[b])};
    buckets_[b].clocks = {std::vector<std::uint64_t>(ranks_.size())};
    buckets_[b].took.resize(1);
    buckets_[b].released.resize(ranks_.size());
  }
  for (Rank& rank : ranks_) {
    rank.pushed.resize(buckets_.size());
    rank.based_on.assign(buckets_.size(), {0});
  }
}

void ServerOracle::fill(int bucket, int rank, std::uint64_t step, std::span<std::int64_t> gradient) const {
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<std::int64_t>(number(bucket, rank, step, i));
}

void ServerOracle::pushes(int bucket, int rank) {
  ++ranks_[static_cast<std::size_t>(rank)].pushed[static_cast<std::size_t>(bucket)];
}

void ServerOracle::passes(int bucket, int rank) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  r.passed.insert(r.pushed[static_cast<std::size_t>(bucket)]);
  pushes(bucket, rank);
}

// ---- what servers take ----

void ServerOracle::released(int bucket, int rank, std::uint64_t step, Version base, std::optional<Version> into) {
  Bucket& b = buckets_[static_cast<std::size_t>(bucket)];
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const auto which = text("bucket ", bucket, ": the gradient of step ", step, " of rank ", rank);
  if (step != b.released[static_cast<std::size_t>(rank)]++) violated(text(which, " is taken out of order, or again"));
  if (step >= r.pushed[static_cast<std::size_t>(bucket)]) return violated(text(which, " has not been pushed"));
  if (base != r.based_on[static_cast<std::size_t>(bucket)][step]) {
    violated(text(which, " is said to be computed on version ", base, ", not ",
                  r.based_on[static_cast<std::size_t>(bucket)][step]));
  }
  passed_ += is_passed(rank, step) ? 1 : 0;
  if (into) return take(bucket, {rank, step}, *into);
  dropped_ += is_passed(rank, step) ? 0 : 1;
  if (job_.options.mode != ServerMode::k_sync) violated(text(which, " is dropped"));
  b.dropped.insert({rank, step});
}

void ServerOracle::take(int bucket, const Took& took, Version into) {
  Bucket& b = buckets_[static_cast<std::size_t>(bucket)];
  const auto rank = static_cast<std::size_t>(took.rank);
  const Version base = ranks_[rank].based_on[static_cast<std::size_t>(bucket)][took.step];
  const auto which = text("bucket ", bucket, ": version ", into, " takes step ", took.step, " of rank ", took.rank);
  if (into == b.values.size()) {
    if (into > 1) check_whole(bucket, into - 1);
    b.values.push_back(b.values.back());
    b.clocks.push_back(b.clocks.back());
    b.took.emplace_back();
    b.values.back()[0] = into;
  }
  if (into + 1 != b.values.size()) return violated(text(which, " out of order"));
  const bool passed = is_passed(took.rank, took.step);
  for (std::size_t i = 1; i < b.values.back().size() && !passed; ++i) {
    b.values.back()[i] += number(bucket, took.rank, took.step, i);
  }
  ++b.clocks.back()[rank];
  std::vector<Took>& all = b.took.back();
  if (!all.empty() && all.back().rank >= took.rank) violated(text(which, " after rank ", all.back().rank));
  all.push_back(took);
  if (!passed) {
    ++taken_;
    staleness_ += into - 1 - base;
    stale_ += base + 1 < into ? 1 : 0;
  }
  switch (job_.options.mode) {
    case ServerMode::sync: {
      const std::size_t phase = job_.phase_of(took.rank, took.step);
      const std::uint64_t step = took.step - job_.steps_before(phase, took.rank);
      if (job_.versions_before(phase) + step + 1 != into) violated(text(which, " of phase ", phase));
      break;
    }
    case ServerMode::ssp:
      if (into - 1 - base > (2 * job_.options.staleness + 1) * (ranks_.size() - 1)) violated(text(which, ", too old"));
      [[fallthrough]];
    case ServerMode::async:
      if (all.size() > 1) violated(text(which, " and another one"));
      break;
    case ServerMode::k_sync:
      if (base + 1 != into) violated(text(which, ", which was computed on version ", base));
      if (bucket == 0) break;
      if (buckets_[0].took.size() <= into ||
          std::ranges::find(buckets_[0].took[into], took) == buckets_[0].took[into].end()) {
        violated(text(which, ", and bucket 0 does not"));
      }
      break;
  }
}

/// Of a version to which nothing is added any more.
void ServerOracle::check_whole(int bucket, Version version) {
  const std::vector<Took>& took = buckets_[static_cast<std::size_t>(bucket)].took[version];
  const auto size = static_cast<int>(took.size());
  const auto [first, its_step] = took.front();
  const std::size_t phase = job_.phase_of(first, its_step);
  const std::uint64_t step = its_step - job_.steps_before(phase, first);
  const auto makes = std::ranges::count_if(job_.steps[phase], [&](std::uint64_t steps) { return steps > step; });
  if (job_.options.mode == ServerMode::sync && size != makes) {
    violated(text("bucket ", bucket, ": version ", version, " has ", size, " gradients, and ", makes,
                  " ranks make that step"));
  }
  if (job_.options.mode != ServerMode::k_sync) return;
  if (bucket != 0 && took != buckets_[0].took[version]) {
    violated(text("version ", version, " has other gradients in bucket ", bucket, " than in bucket 0"));
  }
  if (size > job_.options.enough) {
    violated(text("bucket ", bucket, ": version ", version, " has ", size, " gradients, more than k"));
  }
  if (size == job_.options.enough || bucket != 0) return;
  ++lowered_;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const bool in = std::ranges::any_of(took, [&](const Took& t) { return t.rank == static_cast<int>(rank); });
    if (!in && ranks_[rank].pushed[0] < job_.steps_before(phase + 1, static_cast<int>(rank))) {
      violated(text("version ", version, " has ", size, " gradients, and rank ", rank, " could still push"));
    }
  }
}

// ---- what ranks are answered ----

std::optional<Version> ServerOracle::check_value(int rank, int bucket, std::span<const std::int64_t> value) {
  const Bucket& b = buckets_[static_cast<std::size_t>(bucket)];
  const auto version = static_cast<Version>(value[0]);
  if (version >= b.values.size()) {
    violated(text("rank ", rank, " has version ", version, " of bucket ", bucket, ", which there is not"));
    return std::nullopt;
  }
  for (std::size_t i = 1; i < value.size(); ++i) {
    if (static_cast<std::uint64_t>(value[i]) == b.values[version][i]) continue;
    violated(text("rank ", rank, " has a value of bucket ", bucket, " that is not its version ", version));
    return std::nullopt;
  }
  return version;
}

void ServerOracle::answered(int rank, std::span<const std::span<const std::int64_t>> values) {
  std::optional<Version> named;
  for (int bucket = 0; bucket < static_cast<int>(values.size()); ++bucket) {
    const auto version = check_value(rank, bucket, values[static_cast<std::size_t>(bucket)]);
    if (!version) return;
    if (!named) named = version;
    check_answer(rank, bucket, *version, *named);
    const Version base = job_.options.mode == ServerMode::k_sync ? *named : *version;
    ranks_[static_cast<std::size_t>(rank)].based_on[static_cast<std::size_t>(bucket)].push_back(base);
  }
}

void ServerOracle::check_answer(int rank, int bucket, Version version, Version named) {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const std::uint64_t clock = r.pushed[static_cast<std::size_t>(bucket)];
  const std::vector<std::uint64_t>& clocks = buckets_[static_cast<std::size_t>(bucket)].clocks[version];
  const auto which = text("rank ", rank, " has version ", version, " of bucket ", bucket, " after ", clock, " steps");
  const ServerMode mode = job_.options.mode;
  const std::uint64_t own = clock - job_.steps_before(r.phase, rank);
  if (mode == ServerMode::sync && version != job_.versions_before(r.phase) + own) violated(which);
  if (mode == ServerMode::k_sync) {
    if (bucket == 0 && version <= r.based_on[0].back()) violated(text(which, ", and has computed on it before"));
    if (version < named) violated(text(which, ", older than version ", named, " of bucket 0"));
    ahead_ += version > named ? 1 : 0;
    return;
  }
  if (clocks[static_cast<std::size_t>(rank)] != clock) violated(text(which, ", without its own last gradient"));
  if (mode != ServerMode::ssp) return;
  const std::uint64_t s = job_.options.staleness;
  for (int other = 0; other < job_.ranks; ++other) {
    const std::uint64_t before = job_.steps_before(r.phase, other);
    const std::uint64_t all = clocks[static_cast<std::size_t>(other)];
    if (all < before) return violated(text(which, ", without a step of rank ", other, " before phase ", r.phase));
    const std::uint64_t theirs = all - before;
    const std::uint64_t needed = std::min(job_.steps[r.phase][static_cast<std::size_t>(other)], own > s ? own - s : 0);
    if (theirs < needed) violated(text(which, ", with ", all, " steps of rank ", other));
    if (theirs > own + s) violated(text(which, ", with as many as ", all, " steps of rank ", other));
    too_new_ += theirs > own ? 1 : 0;
  }
}

// ---- where phases end ----

void ServerOracle::settled(int rank, std::span<const std::span<const std::int64_t>> values) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  for (int bucket = 0; bucket < static_cast<int>(values.size()); ++bucket) {
    const auto version = check_value(rank, bucket, values[static_cast<std::size_t>(bucket)]);
    if (!version) return;
    std::vector<Version>& ends = buckets_[static_cast<std::size_t>(bucket)].ends;
    if (ends.size() == r.phase) {
      ends.push_back(*version);
      check_end(r.phase, bucket, *version);
    }
    if (*version != ends[r.phase]) {
      violated(text("rank ", rank, " ends phase ", r.phase, " with version ", *version, " of bucket ", bucket, ", not ",
                    ends[r.phase]));
    }
    r.based_on[static_cast<std::size_t>(bucket)].resize(r.pushed[static_cast<std::size_t>(bucket)]);
    r.based_on[static_cast<std::size_t>(bucket)].push_back(*version);
  }
  ++r.phase;
}

/// The value holds each gradient pushed before the end of the phase, but for those dropped, and none after it.
void ServerOracle::check_end(std::size_t phase, int bucket, Version version) {
  const Bucket& b = buckets_[static_cast<std::size_t>(bucket)];
  for (int rank = 0; rank < job_.ranks; ++rank) {
    const std::uint64_t pushed = job_.steps_before(phase + 1, rank);
    const auto which = text("bucket ", bucket, ": the last value of phase ", phase);
    if (b.released[static_cast<std::size_t>(rank)] < pushed) {
      violated(text(which, " is there before every gradient of rank ", rank));
    }
    const auto dropped = static_cast<std::uint64_t>(
        std::ranges::count_if(b.dropped, [&](const auto& d) { return d.first == rank && d.second < pushed; }));
    if (b.clocks[version][static_cast<std::size_t>(rank)] != pushed - dropped) {
      violated(text(which, " has ", b.clocks[version][static_cast<std::size_t>(rank)], " gradients of rank ", rank,
                    ", which has pushed ", pushed, " of which ", dropped, " were dropped"));
    }
  }
}

void ServerOracle::served(int rank, int bucket, std::span<const std::int64_t> value) {
  const std::size_t phase = ranks_[static_cast<std::size_t>(rank)].phase;
  const Version end = buckets_[static_cast<std::size_t>(bucket)].ends[phase - 1];
  const auto version = check_value(rank, bucket, value);
  if (version && *version != end) {
    violated(text("rank ", rank, " has moved bucket ", bucket, " to version ", *version, " between phases; phase ",
                  phase - 1, " has ended with ", end));
  }
  for (int other = 0; other < job_.ranks; ++other) {
    const bool went_on = ranks_[static_cast<std::size_t>(other)].pushed[0] > job_.steps_before(phase, other);
    others_went_on_ += went_on ? 1 : 0;
  }
}

void ServerOracle::over(const ServerCounts& counts) {
  for (int bucket = 0; bucket < static_cast<int>(buckets_.size()); ++bucket) {
    const Bucket& b = buckets_[static_cast<std::size_t>(bucket)];
    if (b.values.size() > 1) check_whole(bucket, b.values.size() - 1);
    if (b.dropped != buckets_[0].dropped) violated(text("bucket ", bucket, " has dropped others than bucket 0"));
  }
  if (counts.ages.count() != taken_ || counts.dropped != dropped_ || counts.ages.sum != staleness_) {
    violated(text("the servers count ", counts.ages.count(), " gradients taken, ", counts.dropped,
                  " dropped, staleness ", counts.ages.sum, "; there were ", taken_, ", ", dropped_, " and ",
                  staleness_));
  }
}

}  // namespace stretto
