#include "stretto/ordering/waiting/stall.h"

#include <algorithm>
#include <string_view>

#include "stretto/base/words.h"

namespace stretto {
namespace {

/// "norm.3: ranks 0, 1 wait, rank 2 has not", with the words for one rank and for several.
std::string who_lacks(const StallReport::Tensor& tensor, std::string_view one, std::string_view several) {
  std::string out = tensor.name + ":";
  if (!tensor.waiting.empty()) {
    out += text(' ', ranks_text(tensor.waiting), ' ', tensor.waiting.size() == 1 ? one : several);
  }
  if (tensor.lacking.empty()) return out;
  return out + text(tensor.waiting.empty() ? " " : ", ", ranks_text(tensor.lacking),
                    tensor.lacking.size() == 1 ? " has not" : " have not");
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) out += text(i == 0 ? " " : ", ", ranks[i]);
  return out;
}

std::string StallReport::circle() const {
  std::string out;
  for (const Tensor& tensor : tensors) out += (out.empty() ? "" : "; ") + who_lacks(tensor, "waits", "wait");
  return out;
}

std::string StallReport::to_text() const {
  std::string out;
  for (const Tensor& tensor : tensors) out += (out.empty() ? "" : "; ") + who_lacks(tensor, "has it", "have it");
  for (const Rank& rank : ranks) {
    const bool lacks =
        std::ranges::any_of(tensors, [&](const Tensor& t) { return std::ranges::count(t.lacking, rank.rank) > 0; });
    if (lacks) out += text("; rank ", rank.rank, ' ', rank.does);
  }
  return out;
}

}  // namespace stretto
