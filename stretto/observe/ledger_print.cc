#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <vector>

#include "stretto/observe/ledger.h"

namespace stretto {
namespace {

/// "12.3 s", right-aligned.
std::string time_cell(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(seconds < 10 ? 3 : 1) << std::setw(9) << seconds << " s";
  return out.str();
}

std::string row(const std::string& name, const RankAccount& account) {
  std::ostringstream out;
  out << std::setw(6) << name << std::setw(9) << account.arrived << std::setw(9) << account.fresh << std::setw(9)
      << account.stale << std::setw(9) << account.null << time_cell(account.computed) << time_cell(account.waited)
      << time_cell(account.late) << time_cell(account.lost) << '\n';
  return out.str();
}

constexpr int kMostShown = 16;  // ranks that have a row

/// All ranks, or those that have cost the others most; ascending.
std::vector<int> shown_ranks(const std::vector<RankAccount>& accounts) {
  std::vector<int> ranks(accounts.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (std::ssize(ranks) <= kMostShown) return ranks;
  const auto lost = [&](int rank) { return -accounts[static_cast<std::size_t>(rank)].lost; };
  std::ranges::stable_sort(ranks, {}, lost);
  ranks.resize(kMostShown);
  std::ranges::sort(ranks);
  return ranks;
}

nlohmann::json to_json(const RankAccount& account) {
  return {{"arrived", account.arrived},
          {"fresh", account.fresh},
          {"stale", account.stale},
          {"null", account.null},
          {"computed_seconds", account.computed},
          {"waited_seconds", account.waited},
          {"late_seconds", account.late},
          {"lost_seconds", account.lost}};
}

}  // namespace

std::string Ledger::to_text(const PolicyName& name) const {
  std::ostringstream out;
  out << std::setw(6) << "rank" << std::setw(9) << "arrived" << std::setw(9) << "fresh" << std::setw(9) << "stale"
      << std::setw(9) << "null" << std::setw(11) << "computed" << std::setw(11) << "waited" << std::setw(11) << "late"
      << std::setw(11) << "cost all" << '\n';
  for (const int rank : shown_ranks(accounts_)) out << row(std::to_string(rank), of(rank));
  if (ranks() > kMostShown) {
    out << std::setw(6) << "..."
        << "  " << ranks() - kMostShown << " more, which have cost the others less\n";
  }
  const RankAccount sum = total();
  if (ranks() > 1) out << row("all", sum);

  out << rounds_ << " rounds";
  if (empty_rounds_ > 0) out << " (" << empty_rounds_ << " empty)";
  if (name) {
    const char* separator = ": ";
    for (const auto& [policy, count] : rounds_by_policy(name)) {
      out << separator << count << ' ' << policy;
      separator = ", ";
    }
  }
  out << "; " << batches_ << " batches, " << samples_ << " samples; staleness " << std::fixed << std::setprecision(2)
      << staleness_mean() << " on average, ";
  if (counts_.ages.count() == 0) out << "99 % at most " << staleness_quantile(0.99) << ", ";
  out << "all at most " << staleness_max() << '\n';

  if (rounds_without_names_ > 0) {
    out << rounds_without_names_
        << " rounds count ranks without naming them: they are in the line \"all\" alone, where "
        << "their times and null are not known\n";
  }
  const auto slowest = std::max_element(accounts_.begin(), accounts_.end(),
                                        [](const RankAccount& a, const RankAccount& b) { return a.lost < b.lost; });
  if (slowest->lost > 0) {
    out << "the others waited" << std::setprecision(slowest->lost < 10 ? 3 : 1) << ' ' << slowest->lost
        << " s because of rank " << slowest - accounts_.begin() << ", " << std::lround(100 * slowest->lost / sum.lost)
        << " % of all waiting for somebody\n";
  }
  if (deposits_known_) {
    out << "deposits: " << deposits_made_ << " made, " << applied() << " applied, ";
    if (passed_over() > 0) {
      out << std::setprecision(1) << passed_over() << " of them passed over by a replica on average, ";
    }
    if (dropped() > 0) out << dropped() << " dropped, ";
    out << deposits_pending_ << " pending, ";
    if (lost_deposits() < 0) {
      out << -lost_deposits() << " applied that nobody made\n";
    } else {
      out << lost_deposits() << " lost";
      if (kept()) out << ", the movement of " << std::setprecision(1) << *kept() << " kept";
      out << '\n';
    }
  }
  return out.str();
}

std::string Ledger::to_json(const PolicyName& name) const {
  nlohmann::json staleness = {
      {"mean", staleness_mean()}, {"max", staleness_max()}, {"histogram", staleness_histogram()}};
  if (counts_.ages.count() == 0) staleness["p99"] = staleness_quantile(0.99);
  nlohmann::json json = {{"rounds", rounds_},
                         {"empty_rounds", empty_rounds_},
                         {"rounds_by_policy", rounds_by_policy(name)},
                         {"batches", batches_},
                         {"samples", samples_},
                         {"seconds", seconds_},
                         {"staleness", staleness},
                         {"total", stretto::to_json(total())}};
  if (rounds_without_names_ > 0) json["rounds_without_names"] = rounds_without_names_;
  json["ranks"] = nlohmann::json::array();
  for (const RankAccount& account : accounts_) json["ranks"].push_back(stretto::to_json(account));
  if (deposits_known_) {
    json["deposits"] = {{"made", deposits_made_},
                        {"applied", applied()},
                        {"dropped", dropped()},
                        {"pending", deposits_pending_},
                        {"lost", lost_deposits()}};
    if (passed_over() > 0) json["deposits"]["passed_over"] = passed_over();
    if (kept()) json["deposits"]["kept"] = *kept();
  }
  return json.dump();
}

}  // namespace stretto
