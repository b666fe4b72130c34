#pragma once

namespace stretto {

/// Says when a rate that is measured again and again leaves its prediction, and when it is back. It has left once two
/// measurements in a row are more than kLeft off on the same side, and is back once two in a row are within kBack. So
/// one odd measurement says nothing, and a rate that hovers about the limit is told of once.
class DriftDetector {
 public:
  static constexpr double kLeft = 0.10;  ///< of the prediction
  static constexpr double kBack = 0.05;

  enum class Turn { none, left, back };

  /// Requires: predicted > 0.
  explicit DriftDetector(double predicted) : predicted_(predicted) {}

  /// The next measurement. Measurements follow one another without overlap.
  Turn take(double rate);
  /// Between Turn::left and Turn::back.
  bool drifting() const { return drifting_; }
  double predicted() const { return predicted_; }

 private:
  const double predicted_;
  bool drifting_ = false;
  int odd_ = 0;  // measurements in a row that speak against drifting_; below 0 for those that are too low
};

}  // namespace stretto
