#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/dispenser/batch_plan.h"

namespace stretto {
namespace {

constexpr std::uint64_t kLabelStream = 0x6c6162656c730000;   // the order of the labels
constexpr std::uint64_t kSampleStream = 0x6c6162656c730001;  // of the samples of a label
constexpr std::uint64_t kDealStream = 0x6c6162656c730002;    // of the pieces and, by pass, of the ranks

using Labels = std::set<std::uint32_t>;

struct Piece {
  std::span<const std::uint32_t> samples;
  Labels labels;
};

struct Part {
  std::vector<std::uint32_t> samples;
  Labels labels;

  bool gains_from(const Piece& piece) const { return !std::ranges::includes(labels, piece.labels); }
  std::size_t num_labels_with(const Piece& piece) const {
    Labels both = labels;
    both.insert(piece.labels.begin(), piece.labels.end());
    return both.size();
  }
};

/// All samples, label after label.
std::vector<std::uint32_t> row_by_label(std::span<const std::uint32_t> labels, std::uint64_t seed) {
  const Labels known(labels.begin(), labels.end());
  std::vector<std::uint32_t> order(known.begin(), known.end());
  shuffle(order, Random(seed, kLabelStream));
  std::map<std::uint32_t, std::size_t> place;
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<std::uint32_t> row(labels.size());
  std::iota(row.begin(), row.end(), 0u);
  shuffle(row, Random(seed, kSampleStream));
  std::ranges::stable_sort(row, {}, [&](std::uint32_t sample) { return place[labels[sample]]; });
  return row;
}

/// Equal pieces of the row, in random order, but those with most labels first.
std::vector<Piece> cut(std::span<const std::uint32_t> row, std::span<const std::uint32_t> labels, std::size_t number,
                       std::uint64_t seed) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < number; ++i) {
    const std::size_t first = row.size() * i / number, last = row.size() * (i + 1) / number;
    Piece piece{row.subspan(first, last - first), {}};
    for (const auto sample : piece.samples) piece.labels.insert(labels[sample]);
    pieces.push_back(std::move(piece));
  }
  shuffle(pieces, Random(seed, kDealStream));
  std::ranges::stable_sort(pieces, std::greater<>(), [](const Piece& piece) { return piece.labels.size(); });
  return pieces;
}

/// Each pass gives every rank one piece: the first piece with a label that the rank lacks, within its limit of labels;
/// if there is none, the first piece that stays within the limit. Nothing where a rank finds no such piece.
std::optional<std::vector<Part>> deal(std::vector<Piece> pieces, int ranks, std::size_t most, std::uint64_t seed) {
  std::vector<Part> parts(static_cast<std::size_t>(ranks));
  std::vector<std::size_t> turns(parts.size());
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  for (std::uint64_t pass = 1; !pieces.empty(); ++pass) {
    shuffle(turns, Random(random_bits(seed, kDealStream, pass)));
    for (const std::size_t rank : turns) {
      Part& part = parts[rank];
      const auto fits = [&](const Piece& piece) { return part.num_labels_with(piece) <= most; };
      auto chosen =
          std::ranges::find_if(pieces, [&](const Piece& piece) { return part.gains_from(piece) && fits(piece); });
      if (chosen == pieces.end()) chosen = std::ranges::find_if(pieces, fits);
      if (chosen == pieces.end()) return std::nullopt;
      part.samples.insert(part.samples.end(), chosen->samples.begin(), chosen->samples.end());
      part.labels.insert(chosen->labels.begin(), chosen->labels.end());
      pieces.erase(chosen);
    }
  }
  return parts;
}

std::optional<std::vector<Part>> parts_of(std::span<const std::uint32_t> row, std::span<const std::uint32_t> labels,
                                          int ranks, int most, std::uint64_t seed) {
  const auto size = static_cast<std::size_t>(ranks);
  for (std::size_t each = static_cast<std::size_t>(std::max(1, most - 1)); each > 0; --each) {
    if (each * size > row.size()) continue;
    auto parts = deal(cut(row, labels, each * size, seed), ranks, static_cast<std::size_t>(most), seed);
    if (parts) return parts;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> parts_by_label(std::span<const std::uint32_t> labels, int ranks, int most,
                                                       std::uint64_t seed) {
  const std::vector<std::uint32_t> row = row_by_label(labels, seed);
  auto parts = parts_of(row, labels, ranks, most, seed);
  if (!parts) {
    int enough = most + 1;  // that of all labels is
    while (!parts_of(row, labels, ranks, enough, seed)) ++enough;
    throw UsageError(text("data labels:", most, " on ", ranks,
                          " ranks: expected more labels a rank, since each sample ",
                          "belongs to some rank; labels:", enough, " would work"));
  }
  std::vector<std::vector<std::uint32_t>> out;
  for (Part& part : *parts) out.push_back(std::move(part.samples));
  return out;
}

}  // namespace stretto
