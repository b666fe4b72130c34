#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/rank_set.h"
#include "stretto/ordering/negotiation/control_messages.h"
#include "stretto/ordering/orderer/graph.h"
#include "stretto/ordering/waiting/stall.h"

namespace stretto {

/// Who has asked for which tensor of the open step: kept by the first member of a process set.
class RequestTable {
 public:
  /// `ranks`: the rank of the job of each member.
  explicit RequestTable(std::vector<int> ranks)
      : ranks_(std::move(ranks)), ended_(static_cast<int>(ranks_.size())), drained_(ended_) {}

  /// Takes down what a member has told. Errc::bad_input where a member asks for a tensor a second time, and where its
  /// description differs from that of another member; the message names the tensor, the ranks and both descriptions.
  Result<void> take(int member, const MemberReport& report);
  /// Takes out the tensors that every member has asked for or will not submit, in the order in which they were asked
  /// for first.
  std::vector<TensorDescription> take_complete();
  /// Forgets the step, which is over on all members.
  void close();
  /// Makes a report of the tensors that some members wait for and others have not submitted. `reports`: what each
  /// member has said when it was asked who waits.
  StallReport stall(const std::vector<MemberReport>& reports) const;

 private:
  struct Row {
    TensorDescription tensor;
    int first = 0;  // the member that has asked first
    RankSet asked;  // the members that have asked
  };
  const std::vector<int> ranks_;
  RankSet ended_, drained_;  // the members that have said so
  std::vector<Row> rows_;    // one for each tensor, in the order of the first requests
};

}  // namespace stretto
