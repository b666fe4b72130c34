#include "stretto/train/recipes/round_notes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

// The numbers of a rank; all are 0 where it brought nothing.
enum Number : std::size_t { kDeposits, kBase, kHash, kRate, kWeights, kNumbers };

}  // namespace

RoundNotes::RoundNotes(int rank, int ranks, int num_parameters, int max_lag)
    : rank_(rank),
      ranks_(static_cast<std::size_t>(ranks)),
      num_parameters_(static_cast<std::size_t>(num_parameters)),
      history_(static_cast<std::size_t>(max_lag) + 2) {}

BucketSpec RoundNotes::bucket() const {
  return {DataType::int64, kNumbers * ranks_ + num_parameters_ + std::tuple_size_v<LoopCounts>};
}

void RoundNotes::write(std::span<std::int64_t> numbers, const Replica& replica, std::uint64_t base,
                       const LoopCounts& counts) const {
  std::fill(numbers.begin(), numbers.end(), 0);
  const auto mine = numbers.subspan(kNumbers * static_cast<std::size_t>(rank_), kNumbers);
  mine[kDeposits] = 1;
  mine[kBase] = static_cast<std::int64_t>(base);
  mine[kHash] = static_cast<std::int64_t>(after(base).hash);
  mine[kRate] = std::bit_cast<std::int64_t>(after(base).lr);
  mine[kWeights] = static_cast<std::int64_t>(after(base).weights);
  const auto uses = numbers.subspan(kNumbers * ranks_);
  for (std::size_t i = 0; i < num_parameters_; ++i) uses[i] = replica.used(static_cast<int>(i)) ? 1 : 0;
  std::ranges::copy(counts, uses.begin() + static_cast<std::ptrdiff_t>(num_parameters_));
}

std::span<const std::int64_t> RoundNotes::uses(std::span<const std::int64_t> sum) const {
  return sum.subspan(kNumbers * ranks_, num_parameters_);
}

LoopCounts RoundNotes::counts(std::span<const std::int64_t> sum) const {
  LoopCounts counts;
  std::ranges::copy(sum.last<std::tuple_size_v<LoopCounts>>(), counts.begin());
  return counts;
}

void RoundNotes::take_uses(std::span<std::int64_t> sum, const Replica& replica, int bucket,
                           std::span<const std::int64_t> own) const {
  for (std::size_t i = 0; i < num_parameters_; ++i) {
    if (replica.bucket_of(static_cast<int>(i)) != bucket) continue;
    sum[kNumbers * ranks_ + i] = own.empty() ? 0 : uses(own)[i];
  }
}

std::optional<std::string> RoundNotes::difference(std::span<const std::int64_t> sum) const {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const auto theirs = sum.subspan(kNumbers * rank, kNumbers);
    if (theirs[kDeposits] != 1) continue;  // none, or several that were added up: a later round tells
    const auto base = static_cast<std::uint64_t>(theirs[kBase]);
    const History& mine = after(base);
    if (static_cast<std::uint64_t>(theirs[kHash]) == mine.hash) {
      if (static_cast<std::uint64_t>(theirs[kWeights]) == mine.weights) continue;
      return text("rank ", rank, " had other weights than rank ", rank_, " at the beginning of round ", mine.round,
                  ": step() alone may move them; what else does, as a clamp, belongs into on_round()");
    }
    const double lr = std::bit_cast<double>(theirs[kRate]);
    const std::string what = lr != mine.lr ? text("has lr ", lr, " where rank ", rank_, " has ", mine.lr)
                                           : text("has had other options of the optimizer than rank ", rank_);
    return text("rank ", rank, " ", what, " at round ", base == 0 ? 0 : base - 1,
                ": set rates in on_round(), or by a scheduler, which follows the batches applied");
  }
  return std::nullopt;
}

std::string RoundNotes::history() const {
  return {reinterpret_cast<const char*>(history_.data()), history_.size() * sizeof(History)};
}

void RoundNotes::take_history(std::string_view history) {
  STRETTO_CHECK(history.size() == history_.size() * sizeof(History), "notes of another loop: ", history.size(),
                " bytes");
  std::memcpy(history_.data(), history.data(), history.size());
}

bool RoundNotes::compares(std::uint64_t round) {
  constexpr std::uint64_t kEvery = 64;
  return round < kEvery ? std::has_single_bit(round) : round % kEvery == 0;
}

void RoundNotes::applies(std::uint64_t round, const std::optional<OptimizerOptions>& options,
                         std::optional<std::uint64_t> weights) {
  History next = after(round);
  if (options) {
    Hash64 hash;
    hash.add(next.hash);
    hash.add(options->hash);
    next.hash = hash.value();
    next.lr = options->lr;
  }
  if (weights) {
    next.weights = *weights;
    next.round = round;
  }
  after(round + 1) = next;
}

}  // namespace stretto
