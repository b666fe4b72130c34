#pragma once

#include "stretto/base/defect.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/collective/rounds/partial_options.h"

namespace stretto {

/// The three models that a rank has under DiLoCo.
enum class PhaseModel {
  weights,  ///< W: what the rank trains, by steps of its own
  anchor,   ///< X: the weights with which the present phase began
  outer,    ///< A: the initial weights, moved by one outer step a round; the same on every rank after as many rounds
};

/// When the models of one rank move under DiLoCo (Douillard et al., "DiLoCo: Distributed Low-Communication Training of
/// Language Models", 2023, algorithm 1), if rounds need not wait for all ranks. A *phase* is a number of steps that a
/// rank takes by itself. At its end the rank deposits the *pseudo-gradient* d = X − W, which exactly one round takes;
/// each round moves the outer model A by one outer step, along the sum of the pseudo-gradients it has taken.
///
/// Promised, and searched (`stretto check --collective diloco`): each step of a rank is in exactly one pseudo-gradient;
/// the weights are what they were when the rank last took the outer model, moved by its own steps since; after the last
/// round all ranks have the outer model as their weights. It rests on one rule: the anchor is what the steps of the
/// phase began with, and nothing else. So weights and anchor move together, or neither does.
///
/// Without `keep` a rank begins each phase with the newest outer model it has been handed, whether or not a round has
/// taken its last pseudo-gradient: the round that takes it moves the outer model of every rank. With `keep` (as in
/// streaming variants of DiLoCo) the weights go on from where they are, and take the outer model at full rounds only.
///
/// `Models` holds the models and does the arithmetic:
///
///     void copy(PhaseModel to, PhaseModel from);
///     void subtract(Contribution& to, PhaseModel from);  // to = from − W
///     void outer_step(const RoundResult& result);        // moves A; the round is not empty
///
/// One thread. `models` outlives this.
template <class Models>
class OuterPhases {
 public:
  OuterPhases(Models& models, bool keep) : models_(models), keep_(keep) {}

  /// The first phase begins with the weights as they are, which are those of all ranks. Once, before all else.
  void begin() {
    models_.copy(PhaseModel::outer, PhaseModel::weights);
    models_.copy(PhaseModel::anchor, PhaseModel::weights);
  }

  /// Instead of begin(), on a rank that takes the model over from another one, with its outer model: so do the weights.
  void begin_with_outer() { take_outer(); }

  /// A phase of at least one step ends: writes its pseudo-gradient to `to`, which the caller then deposits.
  void end_phase(Contribution& to) {
    models_.subtract(to, defect(Defect::anchor_is_newest_outer_model) ? PhaseModel::outer : PhaseModel::anchor);
    if (keep_) models_.copy(PhaseModel::anchor, PhaseModel::weights);
  }

  /// A round is handed over. Between two phases, or after the last; in order. Where nobody brought anything there is no
  /// outer step: its momentum would move the model.
  void apply(const RoundResult& result) {
    if (!result.empty()) models_.outer_step(result);
    if (result.policy.kind == Policy::Kind::full) take_outer();  // which has taken whatever was pending
  }

  /// The exchange that follows the end of a phase is over: the next phase may begin.
  void exchanged() {
    if (!keep_) take_outer();
  }

  /// The last round has been applied: this rank's weights are those of all ranks.
  void finish() {
    if (!defect(Defect::keep_weights_at_the_end)) take_outer();
  }

 private:
  void take_outer() {
    if (!defect(Defect::weights_without_anchor)) models_.copy(PhaseModel::anchor, PhaseModel::outer);
    if (!defect(Defect::anchor_without_weights)) models_.copy(PhaseModel::weights, PhaseModel::outer);
  }

  Models& models_;
  const bool keep_;
};

}  // namespace stretto
