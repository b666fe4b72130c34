#pragma once

namespace stretto {

/// Says when a rate that is measured again and again leaves its prediction, and when it is back. It has left once two
/// measurements in a row are more than kLeft off on the same side, and is back once two in a row are within kBack. So
/// one odd measurement says nothing, and a rate that hovers about the limit is told of once. Where two in a row are
/// more than kLeft away from the rate it had when it left, it has left anew, or is back if they are not more than that
/// off the prediction: something else has changed.
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
  Turn leave(double rate);
  Turn come_back();
  void forget() { low_ = high_ = near_ = away_ = 0; }

  const double predicted_;
  bool drifting_ = false;
  double level_ = 0;  // the rate when it left
  // Measurements in a row that are too low, too high, near the prediction, and away from the level.
  int low_ = 0, high_ = 0, near_ = 0, away_ = 0;
};

}  // namespace stretto
