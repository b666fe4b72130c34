#include <algorithm>
#include <cstddef>
#include <vector>

#include "stretto/base/words.h"
#include "stretto/ordering/orderer/tensor_table.h"
#include "stretto/ordering/topo/set_plan.h"
#include "stretto/ordering/waiting/stall.h"

namespace stretto {
namespace {

/// The tensors of a plan in order, and in which buffer each is.
struct Tensors {
  explicit Tensors(const SetPlan& plan) {
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      all.insert(all.end(), plan.buffers[b].begin(), plan.buffers[b].end());
      buffer_of.resize(all.size(), b);
    }
  }
  bool have(const std::string& name) const {
    return std::ranges::find(all, name, &TensorDescription::name) != all.end();
  }

  std::vector<TensorDescription> all;
  std::vector<std::size_t> buffer_of;
};

std::string described(const TensorDescription& tensor) {
  return text(tensor.name, " (", to_text(tensor), ")");
}

/// Where the plan of `rank` differs first from that of `first`.
std::string first_difference(const SetPlan& plan, int rank, const SetPlan& plan_of_first, int first) {
  const Tensors theirs(plan), of_first(plan_of_first);
  const std::size_t both = std::min(theirs.all.size(), of_first.all.size());
  std::size_t i = 0;
  while (i < both && theirs.all[i] == of_first.all[i]) ++i;
  const auto lacks = [](const TensorDescription& tensor, int who) {
    return text("tensor ", described(tensor), ", which rank ", who, " does not have");
  };
  if (i < theirs.all.size() && !of_first.have(theirs.all[i].name)) return lacks(theirs.all[i], first);
  if (i < of_first.all.size() && !theirs.have(of_first.all[i].name)) return lacks(of_first.all[i], rank);
  if (i < both) {
    return text("tensor ", described(theirs.all[i]), ", where rank ", first, " has ", described(of_first.all[i]));
  }
  const auto [other, same] = std::ranges::mismatch(theirs.buffer_of, of_first.buffer_of);
  if (other == theirs.buffer_of.end()) return "the end of the step";
  const auto id = static_cast<std::size_t>(other - theirs.buffer_of.begin());
  return text("tensor ", described(theirs.all[id]), ", which waits for other tensors than on rank ", first);
}

}  // namespace

std::string plan_differences(std::span<const RankPlan> plans) {
  std::string out;
  std::vector<int> also;
  for (const RankPlan& other : plans) {
    const RankPlan& first = plans.front();
    if (other.plan == first.plan) continue;
    if (!out.empty()) {
      also.push_back(other.rank);
      continue;
    }
    out = text("rank ", other.rank, "'s graph differs from rank ", first.rank, "'s, first at ",
               first_difference(other.plan, other.rank, first.plan, first.rank));
  }
  if (!also.empty()) out += text("; so ", also.size() == 1 ? "does that of " : "do those of ", ranks_text(also));
  return out;
}

}  // namespace stretto
