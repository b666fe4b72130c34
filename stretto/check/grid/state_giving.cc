#include "stretto/check/grid/state_giving.h"

#include <utility>

namespace stretto {

void StateGiving::hear(int node, const std::vector<int>& gives) {
  const bool is_new = !comers_.contains(node);
  Comer& comer = comers_[node];
  comer.newest.gives.assign(gives.begin(), gives.end());
  if (is_new) ask(node);
}

void StateGiving::ask(int node) {
  Comer& comer = comers_.at(node);
  if (comer.asking++ > 0) ++counts_.asked_again;
  const auto [asked, within] = comer.asked.next(comer.newest, static_cast<MemberNumber>(node));
  const int giver = static_cast<int>(asked);
  around_.later(giver, [this, giver, node] { asked_by_[giver].push_back(node); });
  around_.wait(node, within, [this, node, asking = comer.asking] {
    if (const auto found = comers_.find(node); found != comers_.end() && found->second.asking == asking) ask(node);
  });
}

void StateGiving::at_boundary(int node, const FieldVector& state) {
  const auto asked = asked_by_.find(node);
  if (asked == asked_by_.end() || state.empty()) return;
  for (const int comer : std::exchange(asked->second, {})) {
    around_.later(comer, [this, comer, state] {
      if (comers_.erase(comer) == 0) return;  // it has that of another one
      ++counts_.given;
      around_.take(comer, state);
    });
  }
}

void StateGiving::gone(int node) {
  comers_.erase(node);
  asked_by_.erase(node);
}

}  // namespace stretto
