#include "stretto/collective/rounds/seating.h"

#include <algorithm>
#include <span>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/transport/shared_arena.h"

namespace stretto {

Seating::Seating(const Members& given, int rank, int seats)
    : rank_(rank), board_of_(static_cast<std::size_t>(given.size())) {
  const Members& members = defect(Defect::boards_across_hosts) ? Members(given.size()) : given;
  for (int host = 0; host < members.hosts(); ++host) {
    if (host == members.host_of(rank)) first_board_here_ = boards();
    const std::span<const int> on = members.on(host);
    const std::size_t most = seats == 0 ? on.size() : static_cast<std::size_t>(seats);
    for (std::size_t first = 0; first < on.size(); first += most) {
      const std::span<const int> ranks = on.subspan(first, std::min(most, on.size() - first));
      for (const int other : ranks) board_of_[static_cast<std::size_t>(other)] = boards();
      at_.emplace_back(ranks.begin(), ranks.end());
    }
    if (host == members.host_of(rank)) boards_here_ = boards() - first_board_here_;
  }
  seat_ = seat_of(rank);
  first_place_ = members.place_of(rank) - seat_;
}

int Seating::seat_of(int rank) const {
  return static_cast<int>(std::ranges::lower_bound(here(), rank) - here().begin());
}

std::vector<int> Seating::leaders() const {
  std::vector<int> leaders;
  for (const std::vector<int>& ranks : at_) leaders.push_back(ranks.front());
  return leaders;
}

void Seating::ring(const Host& host, int seat) const {
  host.arena->ring(first_place_ + seat);
}

std::string words_of_boards(int seats, std::uint64_t piece_bytes) {
  const std::string boards = seats == 0 ? "a board a host" : text("boards of ", seats, " ranks");
  return text("on ", boards, " by ", piece_bytes, " B");
}

}  // namespace stretto
