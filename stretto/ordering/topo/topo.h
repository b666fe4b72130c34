#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/ordering/negotiation/coordinator.h"
#include "stretto/ordering/orderer/graph.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/orderer/request_array.h"
#include "stretto/ordering/orderer/tensor_table.h"
#include "stretto/ordering/topo/set_plan.h"
#include "stretto/ordering/waiting/rank_patience.h"
#include "stretto/ordering/waiting/stall_inquiry.h"

namespace stretto {

/// A rank's own view of a step whose graph nobody tells it: in which order its application has submitted tensors, and
/// after waiting for which others.
class ObservedGraph {
 public:
  /// The next step begins.
  void clear() {
    order_.clear();
    edges_.clear();
    waited_for_.reset();
  }
  void submitted(TensorId id) {
    if (waited_for_) edges_.push_back({*waited_for_, static_cast<ExecutedGraph::Node>(order_.size())});
    order_.push_back(id);
  }
  void waits_for(TensorId id) {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (order_[i] == id) waited_for_ = static_cast<ExecutedGraph::Node>(i);
    }
  }
  /// Nodes are numbered in the order of submission.
  ExecutedGraph graph(const TensorTable& table) const {
    ExecutedGraph graph{.num_nodes = static_cast<ExecutedGraph::Node>(order_.size()), .edges = edges_};
    for (std::size_t i = 0; i < order_.size(); ++i) {
      graph.collectives.push_back({static_cast<ExecutedGraph::Node>(i), table.description(order_[i])});
    }
    return graph;
  }

 private:
  std::vector<TensorId> order_;
  std::vector<ExecutedGraph::Edge> edges_;
  std::optional<ExecutedGraph::Node> waited_for_;  // the last one
};

/// The same on all members of a process set, but for CoordinatorOptions::member.
struct TopoOptions {
  enum class OnChange {
    coordinator,  ///< the coordinator orders steps until the graph is stable, and then there is a new plan
    fail,         ///< the job fails
  };
  CoordinatorOptions coordinator;                           ///< for the steps without a plan
  int in_flight = 4;                                        ///< buffers issued and not complete at a time
  bool several_sets = false;                                ///< the job has more than one process set
  Duration plan_patience = std::chrono::milliseconds(200);  ///< how long a rank waits at least for what it holds back
  OnChange on_change = OnChange::coordinator;               ///< where a rank has left the plan
};

/// Plans the order once, from what the first step has executed, and needs no control message after it (TOPO: Pumma et
/// al., "Alleviating Load Imbalance in Data Processing for Large-Scale Deep Learning", section IV-D). A rank that
/// executes something else leaves the plan, and says so in the headers of its buffers; all members throw away the same
/// buffers then, and the coordinator orders what was in them. docs/lab/ordering.md has the rules and what breaks
/// without each.
class Topo final : public Orderer {
 public:
  /// `patience`: of this rank; outlives this object.
  Topo(TopoOptions options, RankPatience& patience);

  TensorId tensor(const TensorDescription& description) override { return coordinator_.tensor(description); }
  const TensorDescription& description(TensorId id) const override { return coordinator_.description(id); }
  Result<void> submitted(TensorId id, StepNumber step) override;
  void executed(StepNumber step, const ExecutedGraph& graph) override;
  void step_ended(StepNumber step) override;
  void drained() override;
  void blocked(std::optional<TensorId> on, TimePoint since) override;
  void control(const ControlResult& result) override;
  Result<void> told(int member, std::span<const std::byte> bytes) override { return inquiry_.take(member, bytes); }
  void completed(SequenceNumber number, const BufferHeader& header) override;
  OrdererAction next(TimePoint now) override;
  std::optional<std::vector<std::vector<TensorId>>> take_plan() override;
  std::vector<BufferOutcome> take_outcomes() override;
  StepNumber closed() const override { return step_; }
  std::uint64_t deviations() const override { return deviations_; }
  std::vector<std::string> take_lines() override;

  /// The coordinator of the steps without a plan.
  const Coordinator& coordinator() const { return coordinator_; }
  bool planned() const { return phase_ == Phase::planned; }         ///< the open step follows a plan
  std::uint64_t gathered_plans() const { return gathered_plans_; }  ///< plans for which graphs were gathered
  /// This rank's answer to another one that waits for a buffer.
  StallAnswer answer(const StallQuestion& asked, TimePoint now) const;
  std::uint64_t questions() const { return questions_; }  ///< that this rank has answered

 private:
  enum class Phase { coordinating, comparing, gathering, broadcasting, planned, over };

  bool ready(std::size_t buffer) const;
  /// Whether the application waits for a tensor that this rank itself holds back.
  bool holds() const;
  void plan_own(const ExecutedGraph& graph);
  void after_close();
  void adopt(const SetPlan& plan);
  void go_on();
  OrdererAction ask_coordinator(TimePoint now);
  OrdererAction follow();
  OrdererAction issue();
  OrdererAction begin(OrdererAction::Kind kind, Phase phase);
  std::vector<RankPlan> plans_in(const ControlResult& result);
  void compare_plans(const ControlResult& result);
  void take_graphs(const ControlResult& result);
  void take_plan(const ControlResult& result);
  void look_for_changes(TimePoint now);
  void note_activity(TimePoint now);
  void look_for_stall(TimePoint now);
  /// Since when this rank waits for another one to reduce something of the plan.
  std::optional<TimePoint> waits_since() const;
  StallInquiry::Wait wait() const;
  std::optional<OrdererAction> tell(TimePoint now);
  TimePoint next_look() const;
  Duration patience() const;
  void leave(const std::string& why);
  void finish_step();
  void fall_back();

  const TopoOptions options_;
  RankPatience& patience_;
  Coordinator coordinator_;
  Phase phase_ = Phase::coordinating;
  StepNumber step_ = 0;  // open
  bool ended_ = false;   // the open step, on this rank
  bool drained_ = false;
  std::vector<StepNumber> submitted_in_;  // by name: one more than the step it was submitted in last
  std::optional<TensorId> blocked_;
  TimePoint blocked_since_;
  bool acted_ = false;    // the application, since the last next()
  bool moved_ = false;    // likewise: a buffer is complete, or the step has ended
  TimePoint moved_at_;    // the last time that next() saw it
  StallInquiry inquiry_;  // where this rank waits for long
  std::uint64_t questions_ = 0;

  // The graphs and counts from which plans are made.
  ObservedGraph observed_;
  std::optional<ExecutedGraph> graph_;  // of the open step
  std::optional<SetPlan> own_plan_;
  std::uint64_t last_fingerprints_ = 0;
  std::uint64_t stable_ = 0;  // closed steps in a row with these
  std::uint64_t deviations_ = 0, gathered_plans_ = 0;
  std::optional<ControlResult> result_;
  bool parted_ = false;              // the graphs of several process sets differ, and that has been said
  std::optional<SetPlan> gathered_;  // on the first member
  std::optional<Error> gathered_error_;
  bool submitted_anew_ = false;  // since the coordinator was asked last
  ComputingGaps gaps_;           // of a step without a plan

  // The plan, and how far the open step has come.
  RequestArray array_{{}};
  bool new_plan_ = false;  // since take_plan()
  std::size_t issued_ = 0, done_ = 0;
  bool leaving_ = false;                  // all further buffers of the step are null here
  std::optional<std::size_t> void_from_;  // the first buffer of the step in which some rank has left
  std::vector<TensorId> unplanned_;       // submitted in the step
  bool all_drained_ = false;
  std::deque<bool> by_plan_;  // of the buffers under way, in order: issued here, not by the coordinator

  std::optional<Error> error_;
  std::vector<BufferOutcome> outcomes_;
  std::vector<std::string> lines_;
};

}  // namespace stretto
