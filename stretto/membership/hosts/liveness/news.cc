#include "stretto/membership/hosts/liveness/news.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"

namespace stretto {

std::uint64_t HostNews::bytes_needed(int ranks) {
  return sizeof(Header) + static_cast<std::uint64_t>(ranks) * sizeof(Entry);
}

HostNews::HostNews(std::span<std::byte> memory, int ranks) : memory_(memory), ranks_(ranks) {
  STRETTO_CHECK(memory.size() >= bytes_needed(ranks), memory.size(), " bytes for the news of ", ranks, " ranks");
}

void HostNews::lose(const Error& why) {
  Entry& mine = entry(why.rank);
  if (mine.taken.exchange(true, std::memory_order_acq_rel) && !defect(Defect::second_loss_overwrites)) return;
  mine.code = why.code;
  mine.why[why.message.copy(mine.why.data(), mine.why.size() - 1)] = '\0';
  mine.number.store(header().lost.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  header().lost.fetch_add(1, std::memory_order_acq_rel);
}

std::vector<Error> HostNews::all_lost() const {
  std::vector<std::pair<std::uint32_t, Error>> found;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::uint32_t number = entry(rank).number.load(std::memory_order_acquire);
    if (number != 0) found.emplace_back(number, Error{entry(rank).code, entry(rank).why.data(), rank});
  }
  std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
  std::vector<Error> out;
  for (auto& [number, why] : found) out.push_back(std::move(why));
  return out;
}

}  // namespace stretto
