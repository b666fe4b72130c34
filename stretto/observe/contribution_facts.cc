#include "stretto/observe/contribution_facts.h"

#include <algorithm>

namespace stretto {

ContributionFacts operator+(const ContributionFacts& a, const ContributionFacts& b) {
  ContributionFacts sum = b;
  sum.batches += a.batches;
  sum.samples += a.samples;
  sum.oldest_base = std::min(a.oldest_base, b.oldest_base);
  sum.sum_of_bases += a.sum_of_bases;
  sum.times.computed += a.times.computed;
  sum.times.waited += a.times.waited;
  sum.times.late += a.times.late;
  return sum;
}

void enter(RoundHeader& header, std::uint64_t round, int rank, const ContributionFacts& facts, bool counts) {
  (facts.oldest_base == round ? header.fresh : header.stale).insert(rank);
  if (!counts) return;
  header.batches += facts.batches;
  header.samples += facts.samples;
  header.oldest_base = std::min(header.oldest_base, facts.oldest_base);
  header.sum_of_bases += facts.sum_of_bases;
  header.times.push_back(facts.times);
  header.times.back().rank = static_cast<std::uint32_t>(rank);
}

}  // namespace stretto
