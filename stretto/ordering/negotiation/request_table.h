#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/rank_set.h"
#include "stretto/ordering/graph.h"
#include "stretto/ordering/negotiation/control_messages.h"
#include "stretto/ordering/stall.h"

namespace stretto {

/// Who has asked for which tensor of the open step: kept by the first member of a process set.
class RequestTable {
 public:
  /// `ranks`: of the job, by member.
  explicit RequestTable(std::vector<int> ranks)
      : ranks_(std::move(ranks)), ended_(static_cast<int>(ranks_.size())), drained_(ended_) {}

  /// Takes down what a member has told. Errc::bad_input for a second request of one tensor, and where a description
  /// differs from that of another member: names tensor, ranks and both descriptions.
  Result<void> take(int member, const MemberReport& report);
  /// Tensors that every member has asked for or will not submit, in the order in which they were asked for first; they
  /// leave the table.
  std::vector<TensorDescription> take_complete();
  /// The step is over on all members.
  void close();
  /// Of tensors that some members wait for and others have not submitted. `reports`: by member, where a report of who
  /// waits was asked for.
  StallReport stall(const std::vector<MemberReport>& reports) const;

 private:
  struct Row {
    TensorDescription tensor;
    int first = 0;  // member that has asked first
    RankSet asked;  // members
  };
  const std::vector<int> ranks_;
  RankSet ended_, drained_;  // members that have told
  std::vector<Row> rows_;    // in the order of the first request
};

}  // namespace stretto
