#include "stretto/ordering/graph_difference.h"

#include <algorithm>
#include <vector>

#include "stretto/base/text.h"
#include "stretto/ordering/stall.h"
#include "stretto/ordering/tensor_table.h"

namespace stretto {
namespace {

bool has(const OrderingPlan& plan, const std::string& name) {
  return std::ranges::any_of(plan.tensors, [&](const TensorDescription& tensor) { return tensor.name == name; });
}

std::string described(const TensorDescription& tensor) {
  return text(tensor.name, " (", to_text(tensor), ")");
}

/// Where the plan of `rank` differs first from that of `first`.
std::string first_difference(const OrderingPlan& theirs, int rank, const OrderingPlan& of_first, int first) {
  const std::size_t both = std::min(theirs.tensors.size(), of_first.tensors.size());
  std::size_t i = 0;
  while (i < both && theirs.tensors[i] == of_first.tensors[i]) ++i;
  const auto lacks = [](const TensorDescription& tensor, int who) {
    return text("tensor ", described(tensor), ", which rank ", who, " does not have");
  };
  if (i < theirs.tensors.size() && !has(of_first, theirs.tensors[i].name)) return lacks(theirs.tensors[i], first);
  if (i < of_first.tensors.size() && !has(theirs, of_first.tensors[i].name)) return lacks(of_first.tensors[i], rank);
  if (i < both) {
    return text("tensor ", described(theirs.tensors[i]), ", where rank ", first, " has ",
                described(of_first.tensors[i]));
  }
  const auto [other, same] = std::ranges::mismatch(theirs.buffer_of, of_first.buffer_of);
  if (other == theirs.buffer_of.end()) return "the end of the step";
  const auto id = static_cast<std::size_t>(other - theirs.buffer_of.begin());
  return text("tensor ", described(theirs.tensors[id]), ", which waits for other tensors than on rank ", first);
}

}  // namespace

std::string graph_differences(std::span<const RankGraph> graphs, const FusionOptions& options) {
  if (graphs.empty()) return "";
  const int first = graphs[0].rank;
  const OrderingPlan of_first = plan_order(graphs[0].graph, options);
  std::string out;
  std::vector<int> also;
  for (const RankGraph& other : graphs.subspan(1)) {
    const OrderingPlan theirs = plan_order(other.graph, options);
    const int set = theirs.tensors.empty() ? 0 : theirs.tensors[0].set;
    if (theirs.fingerprint(set) == of_first.fingerprint(set)) continue;
    if (!out.empty()) {
      also.push_back(other.rank);
      continue;
    }
    out = text("rank ", other.rank, "'s graph differs from rank ", first, "'s, first at ",
               first_difference(theirs, other.rank, of_first, first));
  }
  if (!also.empty()) out += text("; so ", also.size() == 1 ? "does that of " : "do those of ", ranks_text(also));
  return out;
}

}  // namespace stretto
