#include "stretto/predict/model/link_line.h"

namespace stretto {

LinkLine fit_line(std::span<const TimedTransfer> transfers) {
  // (a + b · bytes) / seconds ≈ 1: normal equations of the rows (1 / seconds, bytes / seconds).
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (const auto& [bytes, seconds] : transfers) {
    const double a = 1 / seconds;
    const double b = bytes / seconds;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    a1 += a;
    b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  double latency = (bb * a1 - ab * b1) / determinant;
  double byte = (aa * b1 - ab * a1) / determinant;
  if (latency < 0) {
    latency = 0;
    byte = b1 / bb;
  } else if (byte < 0) {
    byte = 0;
    latency = a1 / aa;
  }
  return {latency, 1 / byte};
}

}  // namespace stretto
