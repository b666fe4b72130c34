#include "stretto/collective/lines/line_round.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

int needed(double share, int members) {
  constexpr double kRounding = 1e-9;  // 0.55 · 20 is a little more than 11
  return std::max(1, static_cast<int>(std::ceil(share * members - kRounding)));
}

void LineOptions::require() const {
  for (const double share : {reduce, complete, advance}) {
    if (!(share > 0 && share <= 1))
      throw UsageError(text("a threshold of ", share, "; expected a share above 0, up to 1"));
  }
  if (rounds_in_flight < 1 || (update == ElasticUpdate::carry && rounds_in_flight > 1)) {
    throw UsageError(text(rounds_in_flight, " rounds in flight; expected 1, or with the paper's update more"));
  }
  if (missing == Missing::previous && update == ElasticUpdate::carry) {
    throw UsageError(
        "previous slices stand in for missing ones with the paper's update alone: with carry the models of those that "
        "are missing would not move by the mean that theirs are in, and the sum of all would");
  }
  if (missing == Missing::previous && compression == Compression::int8) {
    throw UsageError(
        "previous slices stand in for missing ones with compression none or zeros: int8 keeps what came of a node in "
        "memory of its own, and would do so twice");
  }
}

LineRound::LineRound(int own, int members, const LineOptions& options, Duration for_contributions, Duration for_means,
                     bool brings, TimePoint now)
    : own_(own),
      reduce_needs_(needed(options.reduce, members)),
      complete_needs_(needed(options.complete, members)),
      for_contributions_(for_contributions),
      for_means_(for_means),
      opened_(now),
      come_(members),
      brought_(members),
      means_(members) {
  come_.insert(own);
  if (brings) brought_.insert(own);
  contributions_came_.push_back(now);
}

bool LineRound::contributed(int member, bool brings, TimePoint now) {
  contributions_came_.push_back(now);
  if (is_reduced_ || is_complete_) return brings && is_reduced_ && defect(Defect::grid_late_added);
  come_.insert(member);
  if (brings) brought_.insert(member);
  return true;
}

void LineRound::averaged(int member, TimePoint now) {
  means_.insert(member);
  means_came_.push_back(now);
}

LineRound::Due LineRound::due(TimePoint now) const {
  if (is_complete_ || due_by() > now) return Due::nothing;
  return is_reduced_ ? Due::complete : Due::reduce;
}

TimePoint LineRound::due_by() const {
  if (is_complete_) return TimePoint::never();
  const RankSet& here = is_reduced_ ? means_ : come_;
  if (here.all()) return {};
  if (here.count() < (is_reduced_ ? complete_needs_ : reduce_needs_)) return TimePoint::never();
  return is_reduced_ ? reduced_ + for_means_ : opened_ + for_contributions_;
}

LineRound::Due LineRound::due_at_force() const {
  const bool enough = may_reduce() || defect(Defect::grid_short_mean);
  return !is_reduced_ && enough ? Due::reduce : Due::complete;
}

void LineRound::reduced(TimePoint now) {
  is_reduced_ = true;
  reduced_ = now;
  averaged(own_, now);
}

}  // namespace stretto
