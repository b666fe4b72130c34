#include "stretto/train/recipes/momentum_exchange.h"

#include <cmath>

namespace stretto {

std::vector<double> random_direction(Random random, std::size_t dimensions) {
  std::vector<double> direction(dimensions);
  double squares = 0;
  for (double& number : direction) {
    number = random.normal();
    squares += number * number;
  }
  for (double& number : direction) number /= std::sqrt(squares);
  return direction;
}

void collide(std::span<double> a, std::span<double> b, std::span<const double> direction) {
  double along = 0;
  for (std::size_t i = 0; i < direction.size(); ++i) along += (a[i] - b[i]) * direction[i];
  for (std::size_t i = 0; i < direction.size(); ++i) {
    const double change = along * direction[i];
    a[i] -= change;
    b[i] += change;
  }
}

double turn_about_mean(std::span<const float> own, std::span<const float> sum, int members,
                       std::span<const double> direction) {
  double along = 0;
  for (std::size_t i = 0; i < direction.size(); ++i) {
    along += (static_cast<double>(own[i]) - static_cast<double>(sum[i]) / members) * direction[i];
  }
  return -2 * along;
}

}  // namespace stretto
