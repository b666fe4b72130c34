#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/description.h"
#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// For tests: reduces the same buffers in every step, which it has been given by the names of their tensors, without
/// any agreement. A buffer is begun when all of its tensors have been submitted, or the step has ended, and those
/// before it have begun. The first one of a step whose header says `changed` and those behind it are void, and come
/// again.
class PlannedOrderer final : public Orderer {
 public:
  using Plan = std::vector<std::vector<TensorDescription>>;
  /// `changes`: steps in which this member says so, with the first buffer.
  explicit PlannedOrderer(Plan plan, std::set<StepNumber> changes = {})
      : plan_(std::move(plan)), changes_(std::move(changes)) {}

  TensorId tensor(const TensorDescription& description) override {
    const auto at = std::ranges::find(known_, description);
    if (at != known_.end()) return static_cast<TensorId>(at - known_.begin());
    known_.push_back(description);
    return static_cast<TensorId>(known_.size() - 1);
  }
  const TensorDescription& description(TensorId id) const override { return known_[id]; }
  Result<void> submitted(TensorId id, StepNumber step) override {
    if (!here_.emplace(step, id).second) return Error{Errc::bad_input, text(known_[id].name, " comes twice")};
    return {};
  }
  void executed(StepNumber, const ExecutedGraph& graph) override { graphs_ += graph.num_nodes; }
  void step_ended(StepNumber step) override { ended_ = step + 1; }
  void drained() override { drained_ = true; }
  void blocked(std::optional<TensorId> on, TimePoint) override { on.has_value() ? ++blocked_ : ++released_; }
  void control(const ControlResult&) override {}
  void completed(SequenceNumber number, const BufferHeader& header) override {
    const bool is_void = header.changed || (void_step_ == step_of_.at(number) + 1 && !again_.contains(number));
    if (is_void) void_step_ = step_of_.at(number) + 1;
    outcomes_.push_back({number, !is_void});
    completed_ = number + 1;
    all_drained_ = header.all_drained;
  }

  OrdererAction next(TimePoint) override {
    OrdererAction action;
    if (next_ == plan_.size() && void_step_ == step_ + 1 && completed_ == issued_) {
      void_step_ = 0;
      next_ = 0;
      second_time_ = true;
    } else if (next_ == plan_.size() && completed_ == issued_ && issued_ > 0 && void_step_ != step_ + 1) {
      next_ = 0;
      second_time_ = false;
      if (!all_drained_) ++step_;
    }
    if (all_drained_ && next_ == 0) {
      action.kind = OrdererAction::Kind::end;
    } else if (next_ < plan_.size() && may_begin()) {
      action.kind = OrdererAction::Kind::issue;
      action.buffer = make();
    }
    return action;
  }
  std::vector<BufferOutcome> take_outcomes() override { return std::exchange(outcomes_, {}); }
  StepNumber closed() const override { return step_; }
  std::vector<std::string> take_lines() override { return {}; }

  int blocked_times() const { return blocked_; }
  int released_times() const { return released_; }
  ExecutedGraph::Node graph_nodes() const { return graphs_; }

 private:
  bool may_begin() const {
    if (drained_ || ended_ > step_) return true;
    // The last buffer waits for the end, so that all see it.
    if (next_ + 1 == plan_.size()) return false;
    return std::ranges::all_of(plan_[next_], [&](const TensorDescription& tensor) {
      const auto at = std::ranges::find(known_, tensor);
      return at != known_.end() && here_.contains({step_, static_cast<TensorId>(at - known_.begin())});
    });
  }
  FusedBuffer make() {
    FusedBuffer buffer{.number = issued_++, .step = step_, .drained = drained_};
    buffer.changed = !second_time_ && next_ == 0 && changes_.contains(step_);
    for (const TensorDescription& tensor : plan_[next_]) {
      buffer.tensors.push_back(this->tensor(tensor));
      buffer.brought.push_back(here_.contains({step_, buffer.tensors.back()}));
      hash_ = hash_of(text(hash_, ' ', tensor.name, ' ', tensor.count));
    }
    buffer.sequence_hash = hash_;
    step_of_[buffer.number] = step_;
    if (second_time_) again_.insert(buffer.number);
    ++next_;
    return buffer;
  }

  const Plan plan_;
  const std::set<StepNumber> changes_;
  std::vector<TensorDescription> known_;
  std::set<std::pair<StepNumber, TensorId>> here_;
  std::map<SequenceNumber, StepNumber> step_of_;
  std::set<SequenceNumber> again_;  // begun for the second time
  std::vector<BufferOutcome> outcomes_;
  StepNumber step_ = 0, ended_ = 0;
  StepNumber void_step_ = 0;  // 1 + the step whose buffers are void
  std::size_t next_ = 0;      // of the plan
  SequenceNumber issued_ = 0, completed_ = 0;
  std::uint64_t hash_ = 0;
  bool drained_ = false, all_drained_ = false, second_time_ = false;
  int blocked_ = 0, released_ = 0;
  ExecutedGraph::Node graphs_ = 0;
};

}  // namespace stretto
