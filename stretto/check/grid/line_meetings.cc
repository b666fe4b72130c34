#include "stretto/check/grid/line_meetings.h"

#include "stretto/base/error.h"

namespace stretto {

void LineMeetings::hear(int node, int dimension, Nodes line) {
  side(node, dimension).heard = std::move(line);
  look(node, dimension);
}

void LineMeetings::look(int node, int dimension) {
  Side& here = side(node, dimension);
  const Nodes awaited = here.companions.awaited(), before = here.companions.here();
  const bool leaves = here.companions.want(here.heard, here.broken);
  if (leaves && before == here.heard && !here.broken) {
    around_.violated(text("node ", node, " leaves a line that stays, in dimension ", dimension));
  }
  if (leaves) leave(node, dimension);
  if (!leaves && !before.empty()) ++counts_.stayed;
  if (here.companions.awaited() == awaited) return;
  if (!awaited.empty()) await_no_more({dimension, awaited}, node);
  if (here.companions.awaited().empty()) return;
  const Name name{dimension, here.companions.awaited()};
  std::set<int>& come = awaiting_[name];
  come.insert(node);
  if (come.size() == name.second.size()) around_.later(node, [this, name] { meet(name); });
}

/// The others notice, one after the other.
void LineMeetings::leave(int node, int dimension) {
  const auto company = std::exchange(side(node, dimension).company, nullptr);
  company->there.erase(node);
  for (const int other : company->there) {
    around_.later(other, [this, other, dimension, company] {
      Side& its = side(other, dimension);
      if (its.company != company) return;
      ++counts_.broken;
      its.broken = true;
      look(other, dimension);
    });
  }
}

void LineMeetings::await_no_more(const Name& name, int node) {
  const auto found = awaiting_.find(name);
  if (found == awaiting_.end()) return;
  found->second.erase(node);
  if (found->second.empty()) awaiting_.erase(found);
}

void LineMeetings::meet(const Name& name) {
  const auto found = awaiting_.find(name);
  if (found == awaiting_.end() || found->second.size() < name.second.size()) return;
  const auto company = std::make_shared<Company>(Company{std::move(found->second)});
  awaiting_.erase(found);
  ++counts_.met;
  for (const int node : company->there) {
    Side& here = side(node, name.first);
    if (here.heard != name.second) {
      around_.violated(text("node ", node, " comes to a line of dimension ", name.first, " that is over"));
    }
    here.companions.met();
    here.company = company;
    here.broken = false;
  }
}

void LineMeetings::gone(int node) {
  for (auto& [where, here] : sides_) {
    if (where.first != node) continue;
    if (!here.companions.awaited().empty()) await_no_more({where.second, here.companions.awaited()}, node);
    if (here.company != nullptr) here.company->there.erase(node);
    here = {};
  }
}

std::string LineMeetings::who_lacks() const {
  std::string out;
  for (const auto& [where, here] : sides_) {
    const bool is_there = here.company != nullptr && here.company->there.size() == here.heard.size();
    if (here.companions.here() == here.heard && (here.heard.empty() || is_there)) continue;
    out += text(out.empty() ? "" : ", ", "node ", where.first, " is not in its line of dimension ", where.second);
  }
  return out;
}

}  // namespace stretto
