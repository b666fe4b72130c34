#include <algorithm>
#include <functional>
#include <queue>

#include "stretto/predict/model/training_job.h"

namespace stretto {
namespace {

/// Some circle among the layers that are not `placed`, as "a → b → a". Each of them reads from another of them.
std::string circle_among(const std::vector<Layer>& layers, const std::vector<int>& placed) {
  const auto waits_for = [&](int layer) {
    const auto& after = layers[static_cast<std::size_t>(layer)].after;
    return *std::find_if(after.begin(), after.end(),
                         [&](int other) { return placed[static_cast<std::size_t>(other)] < 0; });
  };
  int here = static_cast<int>(std::find(placed.begin(), placed.end(), -1) - placed.begin());
  std::vector<int> path;
  while (std::find(path.begin(), path.end(), here) == path.end()) {
    path.push_back(here);
    here = waits_for(here);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), here));
  constexpr std::size_t kShown = 8;
  std::string out = layers[static_cast<std::size_t>(here)].name;
  for (std::size_t i = path.size(); i-- > 0;) {  // against the direction of the search: in that of the data
    const bool left_out = path.size() > kShown && i > 2 && i < path.size() - 2;
    if (left_out && i != 3) continue;
    out += " → ";
    out += left_out ? "…" : layers[static_cast<std::size_t>(path[i])].name;
  }
  return out;
}

}  // namespace

Result<ProfiledStep> in_topological_order(std::vector<Layer> layers) {
  const std::size_t count = layers.size();
  std::vector<std::vector<int>> readers(count);
  std::vector<std::size_t> missing(count);  // layers that it reads from and that are not placed yet
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    auto& after = layers[i].after;
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    for (const int other : after) readers[static_cast<std::size_t>(other)].push_back(static_cast<int>(i));
    missing[i] = after.size();
    if (missing[i] == 0) ready.push(static_cast<int>(i));
  }

  std::vector<int> placed(count, -1);
  std::vector<int> order;
  while (!ready.empty()) {
    const int layer = ready.top();
    ready.pop();
    placed[static_cast<std::size_t>(layer)] = static_cast<int>(order.size());
    order.push_back(layer);
    for (const int reader : readers[static_cast<std::size_t>(layer)]) {
      if (--missing[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (order.size() < count) {
    return Error{Errc::bad_input, text("the layers read from each other in a circle: ", circle_among(layers, placed))};
  }

  ProfiledStep sorted;
  sorted.reserve(count);
  for (const int layer : order) {
    sorted.push_back(std::move(layers[static_cast<std::size_t>(layer)]));
    for (int& other : sorted.back().after) other = placed[static_cast<std::size_t>(other)];
    std::sort(sorted.back().after.begin(), sorted.back().after.end());
  }
  return sorted;
}

}  // namespace stretto
