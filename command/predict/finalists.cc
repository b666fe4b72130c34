#include "command/predict/finalists.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "command/predict/advice.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto::command {

namespace {

/// So many quarters of the ranks, at least one rank; each number once.
std::set<int> quarters_of(int ranks, std::initializer_list<int> quarters) {
  std::set<int> some;
  for (const int number : quarters) some.insert(std::max(1, ranks * number / 4));
  return some;
}

/// The settings of algorithms that are built in.
std::vector<Choice> known(std::vector<Choice> settings) {
  std::erase_if(settings, [](const Choice& choice) {
    return find_recipe(choice.algorithm.substr(0, choice.algorithm.find(':'))) == nullptr;
  });
  return settings;
}

}  // namespace

Finalists pick_finalists(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                         const SimulatedHosts& hosts, std::uint64_t seed) {
  Finalists finalists;
  const auto trials = try_shapes(choices, replicas, hosts, seed);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (trials[i]) {
      finalists.by_shape.push_back(*trials[i]);
    } else {
      finalists.choices.push_back(choices[i]);
    }
  }
  std::vector<Trial> left = finalists.by_shape;
  for (std::size_t picked = 0; picked < kFinalists && !left.empty(); ++picked) {
    const Trial& best = recommended(left);
    finalists.choices.push_back(best.choice);
    left.erase(left.begin() + (&best - left.data()));
  }
  std::ranges::sort(finalists.by_shape, std::ranges::greater(), [](const Trial& trial) { return mean(trial.rates); });
  return finalists;
}

std::vector<Choice> settings_for(int ranks, const SimulatedHosts& hosts) {
  std::vector<Choice> settings = {{"sync"}};
  if (ranks == 1) return settings;
  settings.push_back({"eager-solo"});
  settings.push_back({"eager-majority"});
  std::set<int> quorums;
  for (int quorum = 2; quorum < ranks; quorum *= 2) quorums.insert(quorum);
  for (int eighths = 3; eighths < 8; ++eighths) quorums.insert(ranks * eighths / 8);
  quorums.insert(ranks - 1);
  for (const int quorum : quorums) {
    if (quorum > 1) settings.push_back({fmt::format("eager-quorum:{}", quorum)});
  }
  for (const int some : quarters_of(ranks, {1, 2, 3})) {
    settings.push_back({fmt::format("eager-deadline:{},adaptive", some)});
  }
  for (int group = 2; group < ranks; group *= 2) {
    if (ranks % group != 0) continue;
    for (const char* tau : {"5", "10", "20", "40"}) {
      settings.push_back({fmt::format("wagma:{}", group), 0, {{"tau", tau}}});
    }
    for (const char* tau : {"10", "40"}) {
      settings.push_back({fmt::format("wagma-quorum:{}", group), 0, {{"tau", tau}}});
    }
  }
  for (const std::uint64_t steps : {2, 4, 8, 16, 32}) settings.push_back({"local", steps});
  for (const std::uint64_t steps : {4, 16}) settings.push_back({"local:quorum", steps});
  settings.push_back({"diloco", 16});
  settings.push_back({"ps-sync"});
  settings.push_back({"ps-async"});
  const int most_servers = std::min(hosts.buckets(), ranks);
  for (int servers = 1; servers < most_servers; servers *= 4) {
    settings.push_back({"ps-async", 0, {{"servers", std::to_string(servers)}}});
  }
  for (const char* bound : {"1", "3", "10"}) settings.push_back({fmt::format("ssp:{}", bound)});
  for (const int some : quarters_of(ranks, {2, 3})) settings.push_back({fmt::format("k-sync:{}", some)});
  return known(settings);
}

std::vector<Choice> settings_without_shape() {
  return known({{"d-psgd"}, {"sgp"}, {"osgp"}, {"gossip-grad"}, {"ad-psgd"}, {"easgd"}, {"easgd-async"}});
}

std::vector<Choice> all_settings_for(int ranks, const SimulatedHosts& hosts) {
  std::vector<Choice> settings = settings_for(ranks, hosts);
  if (ranks == 1 || ranks > kFewRanks) return settings;
  for (Choice& choice : settings_without_shape()) settings.push_back(std::move(choice));
  return settings;
}

}  // namespace stretto::command
