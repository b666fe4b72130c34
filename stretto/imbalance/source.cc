#include "stretto/imbalance/source.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/base/random.h"
#include "stretto/base/rank_set.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

/// `value` in the fewest digits that read back as the same number.
std::string shortest(double value) {
  std::ostringstream out;
  for (int digits = 1; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    out.str("");
    out.precision(digits);
    out << value;
    if (std::strtod(out.str().c_str(), nullptr) == value) break;
  }
  return out.str();
}

Duration bounded(double in_seconds) {
  return in_seconds < seconds(kLongestDuration) ? Duration{std::llround(in_seconds * 1e9)} : kLongestDuration;
}

Duration times(Duration duration, double scale) {
  return bounded(static_cast<double>(duration.count()) * scale / 1e9);
}

Duration spaced(Duration low, Duration high, int index, int ranks) {
  return ranks == 1 ? low : low + times(high - low, static_cast<double>(index) / (ranks - 1));
}

/// Floyd's sample of `count` of the ranks.
bool is_drawn(const RandomRanks& source, std::uint64_t bits, int ranks, int rank) {
  Random random(bits);
  RankSet chosen(ranks);
  for (int last = ranks - source.count; last < ranks; ++last) {
    const int candidate = static_cast<int>(random.below(static_cast<std::uint64_t>(last) + 1));
    chosen.insert(chosen.contains(candidate) ? last : candidate);
  }
  return chosen.contains(rank);
}

struct Drawer {
  std::uint64_t bits;
  int ranks;
  int rank;
  std::uint64_t step;

  ImbalanceDraw operator()(const RandomRanks& source) const {
    return {.delay = is_drawn(source, bits, ranks, rank) ? source.delay : Duration{0}};
  }
  ImbalanceDraw operator()(const Rotation& source) const {
    const auto size = static_cast<std::uint64_t>(ranks);
    const auto index = (static_cast<std::uint64_t>(rank) + step % size) % size;
    return {.delay = spaced(source.low, source.high, static_cast<int>(index), ranks)};
  }
  ImbalanceDraw operator()(const LinearSkew& source) const {
    return {.delay = spaced(source.low, source.high, rank, ranks)};
  }
  ImbalanceDraw operator()(const PersistentRank& source) const {
    if (rank != source.rank) return {};
    return {.delay = source.delay, .factor = source.factor};
  }
  ImbalanceDraw operator()(const LogNormalDelay& source) const {
    const double mean = seconds(source.mean);
    Random random(bits, static_cast<std::uint64_t>(rank));
    return {.delay = bounded(random.log_normal(mean, mean * source.cv))};
  }
  ImbalanceDraw operator()(const MeasuredDelay& source) const {
    Random random(bits, static_cast<std::uint64_t>(rank));
    const double drawn = std::exp(source.mu + source.sigma * random.normal());
    return {.delay = bounded(std::clamp(drawn, source.low, source.high) * source.scale)};
  }
  ImbalanceDraw operator()(const RecordedDelays& source) const {
    const auto size = static_cast<std::uint64_t>(ranks);
    const auto steps = source.delays->size() / size;
    return {.delay = times((*source.delays)[(step % steps) * size + static_cast<std::uint64_t>(rank)], source.scale)};
  }
};

struct Scaler {
  double scale;

  ImbalanceSource operator()(RandomRanks source) const { return source.delay = times(source.delay, scale), source; }
  ImbalanceSource operator()(Rotation source) const {
    return Rotation{times(source.low, scale), times(source.high, scale)};
  }
  ImbalanceSource operator()(LinearSkew source) const {
    return LinearSkew{times(source.low, scale), times(source.high, scale)};
  }
  ImbalanceSource operator()(PersistentRank source) const { return source.delay = times(source.delay, scale), source; }
  ImbalanceSource operator()(LogNormalDelay source) const { return source.mean = times(source.mean, scale), source; }
  ImbalanceSource operator()(MeasuredDelay source) const { return source.scale *= scale, source; }
  ImbalanceSource operator()(RecordedDelays source) const { return source.scale *= scale, source; }
};

struct Writer {
  std::string operator()(const RandomRanks& source) const {
    return text("random:ranks=", source.count, ",delay=", to_text(source.delay));
  }
  std::string operator()(const Rotation& source) const {
    return text("rotate:", to_text(source.low), "..", to_text(source.high));
  }
  std::string operator()(const LinearSkew& source) const {
    return text("linear:", to_text(source.low), "..", to_text(source.high));
  }
  std::string operator()(const PersistentRank& source) const {
    const bool only_factor = source.delay == Duration::zero() && source.factor != 1;
    return text("persistent:rank=", source.rank, only_factor ? "" : ",delay=" + to_text(source.delay),
                source.factor == 1 ? "" : ",factor=" + shortest(source.factor));
  }
  std::string operator()(const LogNormalDelay& source) const {
    return text("lognormal:mean=", to_text(source.mean), ",cv=", shortest(source.cv));
  }
  std::string operator()(const MeasuredDelay& source) const {
    return text(source.name, source.scale == 1 ? "" : ":scale=" + shortest(source.scale));
  }
  std::string operator()(const RecordedDelays& source) const {
    return text("trace:", source.path, source.scale == 1 ? "" : ",scale=" + shortest(source.scale));
  }
};

}  // namespace

ImbalanceDraw draw(const ImbalanceSource& source, std::uint64_t bits, int ranks, int rank, std::uint64_t step) {
  return std::visit(Drawer{bits, ranks, rank, step}, source);
}

ImbalanceSource scaled(const ImbalanceSource& source, double scale) {
  return std::visit(Scaler{scale}, source);
}

std::string to_string(const ImbalanceSource& source) {
  return std::visit(Writer{}, source);
}

}  // namespace stretto
