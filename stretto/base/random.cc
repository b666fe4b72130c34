#include "stretto/base/random.h"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>

namespace stretto {

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  using Philox = r123::Philox4x32;
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const Philox::ctr_type counter{{low(index), high(index), low(stream), high(stream)}};
  const Philox::key_type key{{low(seed), high(seed)}};
  const auto out = Philox{}(counter, key);
  return (static_cast<std::uint64_t>(out[1]) << 32) | out[0];
}

std::uint64_t Random::below(std::uint64_t n) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits()) * n) >> 64);
}

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
}

double Random::uniform() {
  return static_cast<double>(bits() >> 11) * 0x1.0p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double Random::log_normal(double mean, double deviation) {
  const double variance = std::log1p((deviation / mean) * (deviation / mean));
  return std::exp(std::log(mean) - variance / 2 + std::sqrt(variance) * normal());
}

std::uint64_t Random::log_uniform(std::uint64_t low, std::uint64_t high) {
  const double a = std::log(static_cast<double>(low));
  const double b = std::log(static_cast<double>(high) + 1.0);
  const auto drawn = static_cast<std::uint64_t>(std::exp(a + (b - a) * uniform()));
  return drawn < low ? low : drawn > high ? high : drawn;
}

}  // namespace stretto
