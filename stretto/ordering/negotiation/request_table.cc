#include "stretto/ordering/negotiation/request_table.h"

#include <algorithm>
#include <set>

#include "stretto/base/defect.h"
#include "stretto/ordering/orderer/tensor_table.h"

namespace stretto {

Result<void> RequestTable::take(int member, const MemberReport& report) {
  const int rank = ranks_[static_cast<std::size_t>(member)];
  if (report.ended) ended_.insert(member);
  if (report.drained) drained_.insert(member);
  for (const TensorDescription& tensor : report.requests) {
    auto row = std::ranges::find(rows_, tensor.name, [](const Row& r) { return r.tensor.name; });
    if (row == rows_.end()) {
      row = rows_.insert(rows_.end(), {tensor, member, RankSet(static_cast<int>(ranks_.size()))});
    }
    const int first = ranks_[static_cast<std::size_t>(row->first)];
    if (row->tensor != tensor) {
      return Error{Errc::bad_input, text("tensor ", tensor.name, ": rank ", first, " reduces ", to_text(row->tensor),
                                         ", and rank ", rank, " reduces ", to_text(tensor))};
    }
    if (row->asked.contains(member)) {
      return Error{Errc::bad_input, text("rank ", rank, " asks twice for tensor ", tensor.name)};
    }
    row->asked.insert(member);
  }
  return {};
}

std::vector<TensorDescription> RequestTable::take_complete() {
  std::vector<TensorDescription> complete;
  std::erase_if(rows_, [&](Row& row) {
    if (!(row.asked | ended_ | drained_).all()) return false;
    complete.push_back(std::move(row.tensor));
    return true;
  });
  return complete;
}

void RequestTable::close() {
  rows_.clear();
  ended_.clear();
}

StallReport RequestTable::stall(const std::vector<MemberReport>& reports) const {
  std::vector<std::pair<std::string, RankSet>> have;  // members by tensor
  for (std::size_t member = 0; member < reports.size(); ++member) {
    for (const std::string& name : reports[member].pending) {
      auto found = std::ranges::find(have, name, &std::pair<std::string, RankSet>::first);
      if (found == have.end()) found = have.insert(have.end(), {name, RankSet(static_cast<int>(ranks_.size()))});
      found->second.insert(static_cast<int>(member));
    }
  }
  StallReport report;
  for (const auto& [name, members] : have) {
    StallReport::Tensor& tensor = report.tensors.emplace_back(StallReport::Tensor{.name = name});
    for (std::size_t member = 0; member < ranks_.size(); ++member) {
      const bool has = members.contains(static_cast<int>(member));
      const bool never = reports[member].ended;
      if (has || !never) (has ? tensor.waiting : tensor.lacking).push_back(ranks_[member]);
    }
    if (tensor.lacking.empty()) report.tensors.pop_back();
  }
  for (std::size_t member = 0; member < reports.size(); ++member) {
    const MemberReport& said = reports[member];
    report.ranks.push_back({ranks_[member], said.ended               ? "has ended the step"
                                            : said.waits_for.empty() ? "computes"
                                                                     : "waits for " + said.waits_for});
  }
  return report;
}

}  // namespace stretto
