#include "stretto/ordering/negotiation/cycle_words.h"

#include <algorithm>
#include <utility>

#include "stretto/base/words.h"

namespace stretto {
namespace {

constexpr bool CycleFlags::*kOfSome[] = {&CycleFlags::unsent,  &CycleFlags::waiting, &CycleFlags::untold,
                                         &CycleFlags::overdue, &CycleFlags::expired, &CycleFlags::some_drained};
constexpr bool CycleFlags::*kOfEvery[] = {&CycleFlags::idle, &CycleFlags::stuck, &CycleFlags::drained};

}  // namespace

CycleWords::CycleWords(std::size_t positions) : words_(size(positions), ~std::uint64_t{0}) {
  set(CycleFlags{});
  std::fill_n(words_.begin() + kFixed, per_kind(), 0);
}

Result<CycleWords> CycleWords::of(std::vector<std::uint64_t> words, std::size_t positions) {
  if (words.size() != size(positions)) {
    return Error{Errc::bad_input, text("a sync of ", words.size(), " words, expected ", size(positions))};
  }
  CycleWords out(0);
  out.words_ = std::move(words);
  return out;
}

void CycleWords::set(const CycleFlags& flags) {
  words_[0] = 0;
  int bit = 0;
  for (const auto flag : kOfSome) words_[0] |= std::uint64_t{!(flags.*flag)} << bit++;
  for (const auto flag : kOfEvery) words_[0] |= std::uint64_t{flags.*flag} << bit++;
}

CycleFlags CycleWords::flags() const {
  CycleFlags flags;
  int bit = 0;
  for (const auto flag : kOfSome) flags.*flag = (words_[0] >> bit++ & 1) == 0;
  for (const auto flag : kOfEvery) flags.*flag = (words_[0] >> bit++ & 1) != 0;
  return flags;
}

void CycleWords::set_fingerprint(std::uint64_t fingerprint) {
  words_[1] = fingerprint;
  words_[2] = ~fingerprint;
}

void CycleWords::set_hit(std::size_t position, bool on) {
  const std::uint64_t bit = std::uint64_t{1} << (position % 64);
  word(0, position) = on ? word(0, position) | bit : word(0, position) & ~bit;
}

void CycleWords::set_pending(std::size_t position) {
  word(1, position) &= ~(std::uint64_t{1} << (position % 64));
}

void CycleWords::set_invalid(std::size_t position) {
  word(2, position) &= ~(std::uint64_t{1} << (position % 64));
}

bool CycleWords::some_invalid() const {
  return std::ranges::any_of(words_.end() - static_cast<std::ptrdiff_t>(per_kind()), words_.end(),
                             [](std::uint64_t w) { return ~w != 0; });
}

}  // namespace stretto
