#include "stretto/observe/ledger.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

namespace stretto {
namespace {

constexpr std::size_t kMaxBins = 1024;
constexpr std::size_t kMaxWaiting = 64;  // rounds whose waits are not complete

/// "12.3 s", right-aligned.
std::string time_cell(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(seconds < 10 ? 3 : 1) << std::setw(9) << seconds << " s";
  return out.str();
}

constexpr int kNameWidth = 6;  // of the column, or as much as the longest name takes

std::string row(int width, const std::string& name, const RankAccount& account) {
  std::ostringstream out;
  out << std::setw(width) << name << std::setw(9) << account.arrived << std::setw(9) << account.fresh << std::setw(9)
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

void OwnCounts::add(const OwnCounts& other) {
  buckets = std::max(buckets, other.buckets);
  taken += other.taken;
  dropped += other.dropped;
  passed += other.passed;
  ages.add(other.ages);
  own_steps += other.own_steps;
  kept_millionths += other.kept_millionths;
}

std::array<std::uint64_t, OwnCounts::kNumbers> OwnCounts::numbers() const {
  std::array<std::uint64_t, kNumbers> all{buckets,  taken,        dropped,   passed,
                                          ages.sum, ages.largest, own_steps, kept_millionths};
  std::ranges::copy(ages.bins, all.begin() + 8);
  return all;
}

OwnCounts OwnCounts::of(std::span<const std::uint64_t, kNumbers> n) {
  OwnCounts counts{.buckets = n[0],
                   .taken = n[1],
                   .dropped = n[2],
                   .passed = n[3],
                   .ages = {.bins = {}, .sum = n[4], .largest = n[5]},
                   .own_steps = n[6],
                   .kept_millionths = n[7]};
  std::ranges::copy(n.subspan<8>(), counts.ages.bins.begin());
  return counts;
}

Ledger::Ledger(int ranks, std::vector<std::string> hosts)
    : accounts_(static_cast<std::size_t>(ranks)),
      hosts_(std::move(hosts)),
      last_arrival_(static_cast<std::size_t>(ranks)) {
  if (ranks < 1) throw UsageError(text("ledger of ", ranks, " ranks: expected at least 1"));
}

void Ledger::add(std::uint64_t round, std::uint64_t policy, const RoundHeader& header, double seconds) {
  STRETTO_CHECK(header.ranks() == ranks(), "header of ", header.ranks(), " ranks in a ledger of ", ranks());
  ++rounds_;
  ++rounds_of_policy_[policy];
  empty_rounds_ += header.empty() ? 1 : 0;
  batches_ += header.batches;
  samples_ += header.samples;
  seconds_ = seconds;
  book_staleness(round, header);
  if (!header.names_ranks()) {
    add_without_names(header);
    return;
  }

  for (const RankTimes& times : header.times) {
    RankAccount& account = accounts_[times.rank];
    account.computed += times.computed;
    account.waited += times.waited;
    account.late += times.late;
    book_wait(static_cast<int>(times.rank), times.waited);
  }
  while (num_waiting_ > 0 && (waiting_.front().unknown == 0 || num_waiting_ >= kMaxWaiting)) {
    blame(waiting_.front());
    forget_first_waiting();
  }

  if (waiting_.empty()) make_room();
  Waiting& waiting = waiting_[num_waiting_];
  waiting.round = round;
  waiting.arrived = header.arrived;
  waiting.drained = header.drained;
  waiting.waits.assign(accounts_.size(), -1);
  waiting.unknown = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    RankAccount& account = accounts_[static_cast<std::size_t>(rank)];
    const bool fresh = header.fresh.contains(rank), stale = header.stale.contains(rank);
    account.fresh += fresh ? 1 : 0;
    account.stale += stale ? 1 : 0;
    account.null += !fresh && !stale && !header.drained.contains(rank) ? 1 : 0;
    if (!header.arrived.contains(rank)) continue;
    ++account.arrived;
    ++waiting.unknown;
    last_arrival_[static_cast<std::size_t>(rank)] = round + 1;
  }
  if (waiting.unknown > 0) ++num_waiting_;
}

void Ledger::grow(int ranks) {
  const int before = this->ranks();
  if (ranks <= before) return;
  accounts_.resize(static_cast<std::size_t>(ranks));
  last_arrival_.resize(accounts_.size());
  for (Waiting& waiting : waiting()) {
    const Waiting old = waiting;
    waiting.arrived = waiting.drained = RankSet(ranks);
    waiting.waits.resize(accounts_.size(), -1);
    for (int rank = 0; rank < before; ++rank) {
      if (old.arrived.contains(rank)) waiting.arrived.insert(rank);
      if (old.drained.contains(rank)) waiting.drained.insert(rank);
    }
    for (int rank = before; rank < ranks; ++rank) waiting.drained.insert(rank);  // it was not there
  }
}

/// For as many as there may be: a round allocates nothing.
void Ledger::make_room() {
  const std::size_t ranks = accounts_.size();
  waiting_.resize(kMaxWaiting);
  for (Waiting& waiting : waiting_) {
    waiting.arrived = waiting.drained = RankSet(this->ranks());
    waiting.waits.reserve(ranks);
  }
  arrivals_.reserve(ranks);
  absent_.reserve(ranks);
}

void Ledger::forget_first_waiting() {
  std::rotate(waiting_.begin(), waiting_.begin() + 1, waiting_.begin() + static_cast<std::ptrdiff_t>(num_waiting_));
  --num_waiting_;
}

void Ledger::add_without_names(const RoundHeader& header) {
  ++rounds_without_names_;
  unnamed_.arrived += static_cast<std::uint64_t>(header.num_arrived());
  unnamed_.fresh += static_cast<std::uint64_t>(header.num_fresh());
  unnamed_.stale += static_cast<std::uint64_t>(header.num_stale());
}

/// The wait that a rank reports with a contribution is that at the round it arrived at last.
void Ledger::book_wait(int rank, double seconds) {
  const auto index = static_cast<std::size_t>(rank);
  const auto found =
      std::ranges::find_if(waiting(), [&](const Waiting& at) { return at.round + 1 == last_arrival_[index]; });
  if (found == waiting().end() || found->waits[index] >= 0) return;
  found->waits[index] = seconds;
  --found->unknown;
}

/// All waits at a round end together, so they tell the order of arrival: between two arrivals those that were there
/// waited, and those that came later, or not at all, were waited for.
void Ledger::blame(const Waiting& waiting) {
  auto& arrivals = arrivals_;  // longest wait first
  auto& absent = absent_;
  arrivals.clear();
  absent.clear();
  for (int rank = 0; rank < ranks(); ++rank) {
    const double wait = waiting.waits[static_cast<std::size_t>(rank)];
    if (wait >= 0) arrivals.emplace_back(wait, rank);
    if (!waiting.arrived.contains(rank) && !waiting.drained.contains(rank)) absent.push_back(rank);
  }
  std::sort(arrivals.rbegin(), arrivals.rend());
  for (std::size_t there = 1; there <= arrivals.size(); ++there) {
    const double until = there < arrivals.size() ? arrivals[there].first : 0;
    const auto missing = arrivals.size() - there + absent.size();
    if (missing == 0) break;  // all were there: the time of the operation itself
    const double share =
        static_cast<double>(there) * (arrivals[there - 1].first - until) / static_cast<double>(missing);
    for (std::size_t i = there; i < arrivals.size(); ++i)
      accounts_[static_cast<std::size_t>(arrivals[i].second)].lost += share;
    for (const int rank : absent) accounts_[static_cast<std::size_t>(rank)].lost += share;
  }
}

void Ledger::close() {
  for (const Waiting& at : waiting()) blame(at);
  num_waiting_ = 0;
  std::ranges::fill(last_arrival_, 0);
}

void Ledger::book_staleness(std::uint64_t round, const RoundHeader& header) {
  if (header.empty()) return;
  const std::uint64_t sum = header.total_staleness(round);
  const std::uint64_t largest = header.max_staleness(round);
  staleness_sum_ += sum;
  staleness_max_ = std::max(staleness_max_, largest);
  const auto count = [this](std::uint64_t staleness, std::uint64_t batches) {
    const auto bin = static_cast<std::size_t>(std::min<std::uint64_t>(staleness, kMaxBins - 1));
    if (histogram_.size() <= bin) histogram_.resize(bin + 1);
    histogram_[bin] += batches;
  };
  const std::uint64_t fresh = std::min(static_cast<std::uint64_t>(header.num_fresh()), header.batches);
  count(0, largest == 0 ? header.batches : fresh);
  if (largest == 0 || fresh == header.batches) return;
  count(largest, 1);
  const std::uint64_t others = header.batches - fresh - 1;
  if (others == 0) return;
  const std::uint64_t rest = sum - largest;
  count(rest / others, others - rest % others);
  count(rest / others + 1, rest % others);
}

void Ledger::set_deposits(std::uint64_t made, std::uint64_t pending, const OwnCounts& counts) {
  deposits_made_ = made;
  deposits_pending_ = pending;
  deposits_known_ = true;
  counts_ = counts;
}

std::uint64_t Ledger::applied() const {
  return counts_.buckets > 0 ? counts_.taken / counts_.buckets : batches_;
}

std::uint64_t Ledger::dropped() const {
  return counts_.buckets > 0 ? counts_.dropped / counts_.buckets : 0;
}

double Ledger::passed_over() const {
  return static_cast<double>(counts_.passed) / ranks();
}

std::int64_t Ledger::lost_deposits() const {
  return deposits_known_ ? static_cast<std::int64_t>(deposits_made_ - deposits_pending_ - applied() - dropped()) : 0;
}

std::optional<double> Ledger::kept() const {
  if (counts_.own_steps == 0) return std::nullopt;
  return static_cast<double>(counts_.kept_millionths) / 1e6;
}

RankAccount Ledger::total() const {
  RankAccount sum = unnamed_;
  for (const RankAccount& account : accounts_) {
    sum.arrived += account.arrived;
    sum.fresh += account.fresh;
    sum.stale += account.stale;
    sum.null += account.null;
    sum.computed += account.computed;
    sum.waited += account.waited;
    sum.late += account.late;
    sum.lost += account.lost;
  }
  return sum;
}

std::vector<double> Ledger::lost_seconds() const {
  std::vector<double> lost;
  for (const RankAccount& account : accounts_) lost.push_back(account.lost);
  return lost;
}

double Ledger::staleness_mean() const {
  if (const std::uint64_t count = counts_.ages.count(); count > 0) {
    return static_cast<double>(counts_.ages.sum) / static_cast<double>(count);
  }
  return batches_ == 0 ? 0 : static_cast<double>(staleness_sum_) / static_cast<double>(batches_);
}

std::vector<std::uint64_t> Ledger::staleness_histogram() const {
  if (counts_.ages.count() == 0) return histogram_;
  const std::uint64_t each = std::max<std::uint64_t>(1, counts_.buckets);
  // By largest remainders: what the entries add up to is the number of batches.
  std::vector<std::uint64_t> batches;
  std::vector<std::size_t> by_remainder;
  std::uint64_t left = (counts_.ages.count() + each / 2) / each;
  for (const std::uint64_t bin : counts_.ages.bins) {
    by_remainder.push_back(batches.size());
    batches.push_back(bin / each);
    left -= batches.back();
  }
  std::ranges::stable_sort(by_remainder, std::greater<>(),
                           [&](std::size_t staleness) { return counts_.ages.bins[staleness] % each; });
  for (std::size_t i = 0; i < left; ++i) ++batches[by_remainder[i]];
  while (!batches.empty() && batches.back() == 0) batches.pop_back();
  return batches;
}

std::uint64_t Ledger::staleness_quantile(double share) const {
  const double wanted = share * static_cast<double>(batches_);
  std::uint64_t seen = 0;
  for (std::size_t staleness = 0; staleness < histogram_.size(); ++staleness) {
    seen += histogram_[staleness];
    if (static_cast<double>(seen) >= wanted) return staleness;
  }
  return 0;
}

std::map<std::string, std::uint64_t> Ledger::rounds_by_policy(const PolicyName& name) const {
  std::map<std::string, std::uint64_t> rounds;
  for (const auto& [word, count] : rounds_of_policy_) rounds[name ? name(word) : text(word)] += count;
  return rounds;
}

std::string Ledger::shown(int rank) const {
  return hosts_.empty() ? std::to_string(rank) : text(rank, " (", hosts_[static_cast<std::size_t>(rank)], ')');
}

std::string Ledger::costliest_host(double lost_in_all) const {
  if (hosts_.empty() || !(lost_in_all > 0)) return {};
  std::map<std::string, double> lost;
  for (int rank = 0; rank < ranks(); ++rank) lost[hosts_[static_cast<std::size_t>(rank)]] += of(rank).lost;
  const auto& [host, most] = *std::ranges::max_element(lost, {}, [](const auto& one) { return one.second; });
  std::ostringstream out;
  out << "of the hosts " << host << " has cost the others most: " << std::fixed << std::setprecision(most < 10 ? 3 : 1)
      << most << " s, " << std::lround(100 * most / lost_in_all) << " % of all waiting for somebody\n";
  return out.str();
}

std::string Ledger::to_text(const PolicyName& name) const {
  std::ostringstream out;
  const std::vector<int> rows = shown_ranks(accounts_);
  int width = kNameWidth;
  if (!hosts_.empty()) {
    for (const int rank : rows) width = std::max(width, static_cast<int>(shown(rank).size()) + 1);
  }
  out << std::setw(width) << "rank" << std::setw(9) << "arrived" << std::setw(9) << "fresh" << std::setw(9) << "stale"
      << std::setw(9) << "null" << std::setw(11) << "computed" << std::setw(11) << "waited" << std::setw(11) << "late"
      << std::setw(11) << "cost all" << '\n';
  for (const int rank : rows) out << row(width, shown(rank), of(rank));
  if (ranks() > kMostShown) {
    out << std::setw(width) << "..."
        << "  " << ranks() - kMostShown << " more, which have cost the others less\n";
  }
  const RankAccount sum = total();
  if (ranks() > 1) out << row(width, "all", sum);

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
        << " s because of rank " << shown(static_cast<int>(slowest - accounts_.begin())) << ", "
        << std::lround(100 * slowest->lost / sum.lost) << " % of all waiting for somebody\n";
  }
  out << costliest_host(sum.lost);
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
