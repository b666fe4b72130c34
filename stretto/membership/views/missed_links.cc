#include "stretto/membership/views/missed_links.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "stretto/membership/views/members_in_words.h"

namespace stretto {
namespace {

/// The members of a host that are there, or of two hosts of one name a member alone; ascending.
using MembersThere = std::vector<MemberNumber>;

const std::string& host_of(const View& view, MemberNumber number) {
  return view.members[*view.place_of(number)].host;
}

MembersThere members_beside(const View& view, MemberNumber number, MemberNumber other,
                            FunctionRef<bool(MemberNumber)> is_lost) {
  const std::string& host = host_of(view, number);
  if (host == host_of(view, other)) return {number};
  MembersThere there;
  for (const PlacedMember& member : view.members) {
    if (member.host == host && !is_lost(member.number)) there.push_back(member.number);
  }
  std::ranges::sort(there);
  return there;
}

}  // namespace

void MissedLinks::miss(const View& view, MemberNumber from, MemberNumber to, TimePoint now) {
  if (view.epoch != epoch_) missed_.clear();
  epoch_ = view.epoch;
  if (missed_.empty()) first_ = now;
  missed_.emplace(from, to);
}

std::optional<MissedLinks::Verdict> MissedLinks::decide(const View& view, FunctionRef<bool(MemberNumber)> is_lost,
                                                        TimePoint now) {
  if (view.epoch != epoch_) missed_.clear();
  if (missed_.empty() || now - first_ < kGather) return std::nullopt;
  std::map<MembersThere, std::set<MembersThere>> misses;  // each other
  for (const auto& [from, to] : missed_) {
    if (is_lost(from) || is_lost(to)) continue;
    const MembersThere here = members_beside(view, from, to, is_lost), there = members_beside(view, to, from, is_lost);
    misses[here].insert(there);
    misses[there].insert(here);
  }
  missed_.clear();
  if (misses.empty()) return std::nullopt;
  Verdict verdict;
  while (!misses.empty()) {
    const auto goes = std::ranges::max_element(misses, {}, [](const auto& one) {
      return std::tuple(one.second.size(), -std::ssize(one.first), one.first.back());
    });
    const auto [members, others] = *goes;
    const std::string& host = host_of(view, members.front());
    std::string names;
    for (const MembersThere& other : others) {
      names += text(names.empty() ? "" : ", ", host_of(view, other.front()));
      if (host_of(view, other.front()) != host) verdict.hosts.insert(host);
      misses[other].erase(members);
    }
    verdict.why += text(verdict.why.empty() ? "" : "; ", host, " and ", names,
                        " do not reach each other: the others go on without ", members_in_words(members), " on ", host);
    verdict.without.insert(verdict.without.end(), members.begin(), members.end());
    misses.erase(members);
    std::erase_if(misses, [](const auto& one) { return one.second.empty(); });
  }
  std::ranges::sort(verdict.without);
  return verdict;
}

}  // namespace stretto
