#include "stretto/dispenser/batch_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

// Streams of random bits, each indexed by epoch or rank.
constexpr std::uint64_t kShuffleStream = 0x73687566666c6500;
constexpr std::uint64_t kBucketStream = 0x6275636b65747300;
constexpr std::uint64_t kBoundaryStream = 0x626f756e64617279;
constexpr std::uint64_t kSampledStream = 0x73616d706c656400;
constexpr std::uint64_t kPartStream = 0x7061727473000000;
constexpr std::uint64_t kMaxSamples = std::uint64_t{1} << 62;

/// Takes `count` neighbours out of `from`, where `place` in [0, 1) says how far from its start.
std::vector<std::uint32_t> cut_out(std::vector<std::uint32_t>& from, std::uint64_t count, double place) {
  const auto start = static_cast<std::ptrdiff_t>(place * static_cast<double>(from.size() - count + 1));
  const auto first = from.begin() + start;
  std::vector<std::uint32_t> out(first, first + static_cast<std::ptrdiff_t>(count));
  from.erase(first, first + static_cast<std::ptrdiff_t>(count));
  return out;
}

}  // namespace

BatchPlan::BatchPlan(PlanOptions options) : options_(std::move(options)) {
  const auto& o = options_;
  if (o.ranks < 1) throw UsageError(text("ranks ", o.ranks, ": expected at least 1"));
  if (o.batch < 1) throw UsageError(text("batch ", o.batch, ": expected at least 1 sample a batch"));
  if (o.pool_batches < 0) throw UsageError(text("pool of ", o.pool_batches, " batches: expected at least 0"));
  const auto ranks = static_cast<std::uint64_t>(o.ranks);
  const auto batch = static_cast<std::uint64_t>(o.batch);
  if (o.samples < ranks) {
    throw UsageError(text("data set of ", o.samples, " samples for ", o.ranks,
                          " ranks: expected at least one sample a rank; ", o.samples == 0 ? 1 : o.samples,
                          o.samples == 0 ? " sample and rank" : " ranks or fewer", " would work"));
  }
  if (o.samples > std::numeric_limits<std::uint32_t>::max()) {
    throw UsageError(text("data set of ", o.samples, " samples: expected fewer than 2^32"));
  }
  if (!o.lengths.empty() && o.lengths.size() != o.samples) {
    throw UsageError(text(o.lengths.size(), " lengths for ", o.samples, " samples: expected one each, or none"));
  }
  if (o.labels_a_rank < 0) throw UsageError(text("labels a rank ", o.labels_a_rank, ": expected at least 0"));
  if (o.labels_a_rank > 0 && o.labels.size() != o.samples) {
    throw UsageError(text(o.labels.size(), " labels for ", o.samples, " samples: expected one each"));
  }
  if (o.steps == 0 && o.epochs == 0) throw UsageError("0 steps and 0 epochs: expected at least 1 of one of them");
  const std::uint64_t most = o.steps > 0 ? kMaxSamples / ranks / batch : kMaxSamples / o.samples;
  if (std::max(o.steps, o.epochs) > most) {
    throw UsageError(
        text(o.steps > 0 ? o.steps : o.epochs, o.steps > 0 ? " steps" : " epochs", ": expected at most ", most));
  }
  num_samples_ = o.steps > 0 ? o.steps * ranks * batch : o.epochs * o.samples;
  num_batches_ = (num_samples_ + batch - 1) / batch;
  if (o.labels_a_rank > 0) parts_ = parts_by_label(o.labels, o.ranks, o.labels_a_rank, o.seed);
}

BatchRef BatchPlan::describe(std::uint64_t sequence) const {
  const auto batch = static_cast<std::uint64_t>(options_.batch);
  BatchRef ref{.sequence = sequence, .epoch = sequence * batch / options_.samples, .samples = batch_};
  ref.index = sequence - (ref.epoch * options_.samples + batch - 1) / batch;
  std::uint64_t longest = 1;
  if (!options_.lengths.empty()) {
    for (const auto sample : batch_) longest = std::max<std::uint64_t>(longest, options_.lengths[sample]);
  }
  ref.units = longest * batch_.size();
  return ref;
}

BatchRef BatchPlan::batch(std::uint64_t sequence) {
  STRETTO_CHECK(sequence < num_batches_, "batch ", sequence, " of ", num_batches_);
  batch_.clear();
  const auto size = static_cast<std::uint64_t>(options_.batch);
  const std::uint64_t end = std::min((sequence + 1) * size, num_samples_);
  for (std::uint64_t at = sequence * size; at < end;) {
    const auto& order = order_of(at / options_.samples);
    const std::uint64_t offset = at % options_.samples;
    const std::uint64_t count = std::min(end - at, options_.samples - offset);
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(offset);
    batch_.insert(batch_.end(), first, first + static_cast<std::ptrdiff_t>(count));
    at += count;
  }
  return describe(sequence);
}

BatchRef BatchPlan::sampled(std::uint64_t sequence, int rank, std::uint64_t step) {
  STRETTO_CHECK(sequence < num_batches_, "batch ", sequence, " of ", num_batches_);
  const auto size = static_cast<std::uint64_t>(options_.batch);
  if (by_length_.empty()) {
    by_length_ = shuffled(0);
    if (options_.bucketed) sort_by_length(by_length_);
  }
  Random random(random_bits(options_.seed, kSampledStream, step), static_cast<std::uint64_t>(rank));
  std::uint64_t low = 0, high = options_.samples;
  if (options_.bucketed) {
    // Near-equal groups of neighbours, each as likely as it is large: every sample is equally likely.
    const std::uint64_t groups = std::max<std::uint64_t>(1, options_.samples / size);
    const std::uint64_t group = random.below(options_.samples) * groups / options_.samples;
    low = (group * options_.samples + groups - 1) / groups;
    high = ((group + 1) * options_.samples + groups - 1) / groups;
  }
  batch_.clear();
  const std::uint64_t count = std::min(size, num_samples_ - sequence * size);
  for (std::uint64_t i = 0; i < count; ++i) batch_.push_back(by_length_[low + random.below(high - low)]);
  BatchRef ref = describe(sequence);
  ref.step = step;
  return ref;
}

BatchRef BatchPlan::of_part(std::uint64_t sequence, int rank, std::uint64_t step) {
  STRETTO_CHECK(sequence < num_batches_ && has_parts(), "batch ", sequence, " of ", num_batches_, ", of a part");
  auto plan = std::ranges::find(plans_of_parts_, rank, &std::pair<int, BatchPlan>::first);
  if (plan == plans_of_parts_.end()) {
    plans_of_parts_.emplace_back(rank, plan_of_part(rank));
    plan = plans_of_parts_.end() - 1;
  }
  const BatchRef drawn = plan->second.batch(step);
  const auto size = static_cast<std::uint64_t>(options_.batch);
  const std::uint64_t count = std::min(size, num_samples_ - sequence * size);
  batch_.clear();
  for (const auto place : drawn.samples.first(count)) batch_.push_back(parts_[static_cast<std::size_t>(rank)][place]);
  BatchRef ref = describe(sequence);
  ref.step = step;
  ref.epoch = drawn.epoch;
  ref.index = drawn.index;
  return ref;
}

/// Long enough for a rank that makes all batches of the job.
BatchPlan BatchPlan::plan_of_part(int rank) const {
  const auto& part = parts_[static_cast<std::size_t>(rank)];
  PlanOptions options{.samples = part.size(),
                      .batch = options_.batch,
                      .steps = num_batches_,
                      .seed = random_bits(options_.seed, kPartStream, static_cast<std::uint64_t>(rank)),
                      .bucketed = options_.bucketed,
                      .pool_batches = options_.pool_batches};
  if (!options_.lengths.empty()) {
    for (const auto sample : part) options.lengths.push_back(options_.lengths[sample]);
  }
  return BatchPlan(std::move(options));
}

const std::vector<std::uint32_t>& BatchPlan::order_of(std::uint64_t epoch) {
  EpochOrder& slot = orders_[epoch % 2];
  if (slot.epoch != epoch) {
    slot.samples = shuffled(epoch);
    if (options_.bucketed) slot.samples = bucketed(epoch * options_.samples, epoch, std::move(slot.samples));
    slot.epoch = epoch;
  }
  return slot.samples;
}

std::vector<std::uint32_t> BatchPlan::shuffled(std::uint64_t epoch) const {
  std::vector<std::uint32_t> order(options_.samples);
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, Random(random_bits(options_.seed, kShuffleStream, epoch)));
  return order;
}

/// Shuffled before and sorted stably, ties come in random order, and pools are random samples of the data set.
void BatchPlan::sort_by_length(std::vector<std::uint32_t>& order) const {
  if (options_.lengths.empty()) return;
  const auto pool = static_cast<std::size_t>(options_.pool_batches) * static_cast<std::size_t>(options_.batch);
  const std::size_t width = pool == 0 ? order.size() : pool;
  for (std::size_t start = 0; start < order.size(); start += width) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(start);
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(start + width, order.size()));
    std::stable_sort(first, last,
                     [&](std::uint32_t a, std::uint32_t b) { return options_.lengths[a] < options_.lengths[b]; });
  }
}

/// An epoch, which begins at `begin` in its row, begins with the samples that complete the last batch of the epoch
/// before. Then come whole batches in random order, and at its end the beginning of a batch that the next epoch
/// completes. Both sides of such a border draw the same place in the order by length, from the number of the border:
/// `border` before the epoch, one more after it.
std::vector<std::uint32_t> BatchPlan::bucketed(std::uint64_t begin, std::uint64_t border,
                                               std::vector<std::uint32_t> order) const {
  sort_by_length(order);
  const auto size = static_cast<std::uint64_t>(options_.batch);
  const std::uint64_t samples = order.size();
  const std::uint64_t num_head = std::min((size - begin % size) % size, samples);
  const std::uint64_t num_tail = (samples - num_head) % size;
  const auto place = [&](std::uint64_t number) { return Random(options_.seed ^ kBoundaryStream, number).uniform(); };
  const auto head = cut_out(order, num_head, place(border));
  const auto tail = cut_out(order, num_tail, place(border + 1));

  std::vector<std::uint64_t> batches(order.size() / size);
  std::iota(batches.begin(), batches.end(), std::uint64_t{0});
  shuffle(batches, Random(random_bits(options_.seed, kBucketStream, border)));
  std::vector<std::uint32_t> out = head;
  out.reserve(samples);
  for (const auto number : batches) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(number * size);
    out.insert(out.end(), first, first + options_.batch);
  }
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

// ---- along a ring ----

namespace {

/// Where share `share` of `samples` begins.
std::uint64_t share_begin(std::uint64_t share, std::uint64_t samples, std::uint64_t ranks) {
  return share * samples / ranks;
}

}  // namespace

/// Samples of the first `passes` passes of a rank, at most once around the ring: of its own share and of those before.
std::uint64_t BatchPlan::first_passes(std::uint64_t rank, std::uint64_t passes) const {
  const auto ranks = static_cast<std::uint64_t>(options_.ranks);
  const std::uint64_t end = share_begin(rank + 1, options_.samples, ranks);
  if (passes <= rank + 1) return end - share_begin(rank + 1 - passes, options_.samples, ranks);
  return end + options_.samples - share_begin(ranks + rank + 1 - passes, options_.samples, ranks);
}

/// Of the whole job.
std::uint64_t BatchPlan::row_length(std::uint64_t rank) const {
  if (options_.steps > 0) return options_.steps * static_cast<std::uint64_t>(options_.batch);
  const auto ranks = static_cast<std::uint64_t>(options_.ranks);
  return options_.epochs / ranks * options_.samples + first_passes(rank, options_.epochs % ranks);
}

/// The pass that a rank is in at sample `at` of its row.
const BatchPlan::RingPass& BatchPlan::ring_pass(std::uint64_t rank, std::uint64_t at) {
  const auto ranks = static_cast<std::uint64_t>(options_.ranks);
  const std::uint64_t around = at / options_.samples;
  const std::uint64_t offset = at % options_.samples;
  std::uint64_t pass = offset * ranks / options_.samples;  // shares differ by one sample at most
  while (first_passes(rank, pass) > offset) --pass;
  while (first_passes(rank, pass + 1) <= offset) ++pass;
  passes_.resize(ranks);
  const std::uint64_t number = around * ranks + pass;
  RingPass& known = passes_[rank][number % 2];
  if (known.number == number) return known;
  if (shared_out_.epoch != around) shared_out_ = {.epoch = around, .samples = shuffled(around)};
  const std::uint64_t share = (rank + ranks - pass) % ranks;
  const auto place = [&](std::uint64_t of) {
    return shared_out_.samples.begin() + static_cast<std::ptrdiff_t>(share_begin(of, options_.samples, ranks));
  };
  const std::uint64_t begin = around * options_.samples + first_passes(rank, pass);
  known = {.number = number, .begin = begin, .samples = {place(share), place(share + 1)}};
  if (options_.bucketed) known.samples = bucketed(begin, (rank << 40) + number, std::move(known.samples));
  return known;
}

/// Samples `from` to `to` of the row of a rank.
void BatchPlan::append_row(std::uint64_t rank, std::uint64_t from, std::uint64_t to) {
  while (from < to) {
    const RingPass& pass = ring_pass(rank, from);
    const std::uint64_t end = std::min(to, pass.begin + pass.samples.size());
    const auto first = pass.samples.begin() - static_cast<std::ptrdiff_t>(pass.begin);
    batch_.insert(batch_.end(), first + static_cast<std::ptrdiff_t>(from), first + static_cast<std::ptrdiff_t>(end));
    from = end;
  }
}

BatchRef BatchPlan::ring(std::uint64_t sequence) {
  STRETTO_CHECK(sequence < num_batches_, "batch ", sequence, " of ", num_batches_);
  const auto ranks = static_cast<std::uint64_t>(options_.ranks);
  const auto size = static_cast<std::uint64_t>(options_.batch);
  if (!whole_) {
    whole_ = row_length(0) / size;
    for (std::uint64_t rank = 1; rank < ranks; ++rank) whole_ = std::min(*whole_, row_length(rank) / size);
  }
  batch_.clear();
  if (sequence / ranks < *whole_) {
    append_row(sequence % ranks, sequence / ranks * size, (sequence / ranks + 1) * size);
    return describe(sequence);
  }
  const std::uint64_t used = *whole_ * size;  // of each rank's row
  std::uint64_t skip = sequence * size - used * ranks;
  for (std::uint64_t rank = 0; rank < ranks && batch_.size() < size; ++rank) {
    const std::uint64_t left = row_length(rank) - used;
    const std::uint64_t first = std::min(skip, left);
    const std::uint64_t count = std::min(left - first, size - batch_.size());
    append_row(rank, used + first, used + first + count);
    skip -= first;
  }
  return describe(sequence);
}

}  // namespace stretto
