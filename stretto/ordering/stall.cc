#include "stretto/ordering/stall.h"

#include <algorithm>

#include "stretto/base/text.h"

namespace stretto {

std::string ranks_text(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) out += text(i == 0 ? " " : ", ", ranks[i]);
  return out;
}

std::string StallReport::circle() const {
  std::string out;
  for (const Tensor& tensor : tensors) {
    out += text(out.empty() ? "" : "; ", tensor.name, ": ", ranks_text(tensor.waiting),
                tensor.waiting.size() == 1 ? " waits" : " wait");
    if (tensor.lacking.empty()) continue;
    out += text(", ", ranks_text(tensor.lacking), tensor.lacking.size() == 1 ? " has not" : " have not");
  }
  return out;
}

std::string StallReport::to_text() const {
  std::string out = circle();
  for (const Rank& rank : ranks) {
    const bool lacks =
        std::ranges::any_of(tensors, [&](const Tensor& t) { return std::ranges::count(t.lacking, rank.rank) > 0; });
    if (!lacks) continue;
    out += text("; rank ", rank.rank,
                rank.ended               ? " has ended the step"
                : rank.waits_for.empty() ? " computes"
                                         : " waits for " + rank.waits_for);
  }
  return out;
}

}  // namespace stretto
