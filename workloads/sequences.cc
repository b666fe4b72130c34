#include "workloads/sequences.h"

#include <cmath>
#include <numbers>

#include "stretto/base/error.h"

namespace stretto {
namespace {

void apply(Sequences& sequences, const std::vector<double>& mean, const std::vector<double>& scale) {
  const std::size_t channels = mean.size();
  for (std::size_t i = 0; i < sequences.values.size(); ++i) {
    const std::size_t channel = i % channels;
    sequences.values[i] = static_cast<float>((sequences.values[i] - mean[channel]) * scale[channel]);
  }
}

}  // namespace

std::vector<std::uint32_t> Sequences::lengths() const {
  std::vector<std::uint32_t> out;
  out.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) out.push_back(length(i));
  return out;
}

void standardize(Sequences& train, Sequences& test) {
  STRETTO_CHECK(train.channels == test.channels && train.num_steps() > 0, train.channels, " ", test.channels);
  const auto channels = static_cast<std::size_t>(train.channels);
  const auto steps = static_cast<double>(train.num_steps());
  std::vector<double> mean(channels), scale(channels);
  for (std::size_t i = 0; i < train.values.size(); ++i) mean[i % channels] += train.values[i] / steps;
  for (std::size_t i = 0; i < train.values.size(); ++i) {
    const double difference = train.values[i] - mean[i % channels];
    scale[i % channels] += difference * difference / steps;
  }
  for (double& s : scale) s = s > 0 ? 1 / std::sqrt(s) : 1;
  apply(train, mean, scale);
  apply(test, mean, scale);
}

Sequences log_spectra(const Sequences& waves, int frame, double floor) {
  STRETTO_CHECK(waves.channels == 1 && frame > 0 && floor > 0, waves.channels, " ", frame, " ", floor);
  const int bins = frame / 2 + 1;
  // cos and sin of 2π k n / frame depend on k n modulo frame only.
  std::vector<double> cosine(static_cast<std::size_t>(frame)), sine(static_cast<std::size_t>(frame));
  for (int n = 0; n < frame; ++n) {
    cosine[static_cast<std::size_t>(n)] = std::cos(2 * std::numbers::pi * n / frame);
    sine[static_cast<std::size_t>(n)] = std::sin(2 * std::numbers::pi * n / frame);
  }
  Sequences out;
  out.channels = bins;
  out.classes = waves.classes;
  out.labels = waves.labels;
  for (std::size_t i = 0; i < waves.size(); ++i) {
    const std::span<const float> wave = waves.sequence(i);
    const std::size_t frames = (wave.size() + static_cast<std::size_t>(frame) - 1) / static_cast<std::size_t>(frame);
    for (std::size_t f = 0; f < frames; ++f) {
      const std::span<const float> samples =
          wave.subspan(f * static_cast<std::size_t>(frame),
                       std::min(static_cast<std::size_t>(frame), wave.size() - f * static_cast<std::size_t>(frame)));
      for (int k = 0; k < bins; ++k) {
        double real = 0, imaginary = 0;
        for (std::size_t n = 0; n < samples.size(); ++n) {
          const std::size_t turn = static_cast<std::size_t>(k) * n % static_cast<std::size_t>(frame);
          real += samples[n] * cosine[turn];
          imaginary += samples[n] * sine[turn];
        }
        out.values.push_back(static_cast<float>(std::log(std::hypot(real, imaginary) / frame + floor)));
      }
    }
    out.offsets.push_back(out.offsets.back() + frames);
  }
  return out;
}

}  // namespace stretto
