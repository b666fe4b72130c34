#include "stretto/predict/model/link_line.h"

namespace stretto {

LinkLine fit_line(std::span<const TimedTransfer> transfers, FitErrors errors) {
  // latency + byte · bytes ≈ seconds, each row weighted: normal equations of the rows (a, b), c.
  double aa = 0, ab = 0, bb = 0, ac = 0, bc = 0;
  for (const auto& [bytes, seconds] : transfers) {
    const double weight = errors == FitErrors::relative ? 1 / seconds : 1;
    const double a = weight;
    const double b = weight * bytes;
    const double c = weight * seconds;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    ac += a * c;
    bc += b * c;
  }
  const double determinant = aa * bb - ab * ab;
  double latency = (bb * ac - ab * bc) / determinant;
  double byte = (aa * bc - ab * ac) / determinant;
  if (latency < 0) {
    latency = 0;
    byte = bc / bb;
  } else if (byte < 0) {
    byte = 0;
    latency = ac / aa;
  }
  return {latency, 1 / byte};
}

}  // namespace stretto
