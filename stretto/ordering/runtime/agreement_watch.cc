#include "stretto/ordering/runtime/agreement_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "stretto/base/text.h"
#include "stretto/ordering/stall.h"

namespace stretto {

std::optional<AgreementWatch::Report> AgreementWatch::look(std::optional<TimePoint> waits, StepNumber step,
                                                           TimePoint now) {
  const std::optional<std::uint64_t> control = controls_.incomplete();
  if (control != control_ || !waits) {
    control_ = control;
    seen_at_ = now;
    warned_ = expired_ = false;
    asked_at_.reset();
  }
  look_by_ = TimePoint::never();
  if (!control || !waits) return std::nullopt;
  const TimePoint since = std::max(seen_at_, *waits);
  const bool expires = abort_ > Duration{0} && now - since >= abort_ && !expired_;
  const bool overdue = now - since >= warning_ && !warned_;
  expired_ |= expires;
  if (!asked_at_ && (expires || overdue)) {
    warned_ = true;
    asked_at_ = now;
    controls_.ask(*control);
  }
  std::optional<Report> report;
  if (asked_at_ && (controls_.all_have_answered() || now - *asked_at_ >= kAnswersWithin)) {
    asked_at_.reset();
    report = Report{line(*control, step), expired_};
  }
  if (asked_at_) look_by_ = *asked_at_ + kAnswersWithin;
  if (!warned_) look_by_ = std::min(look_by_, since + warning_);
  if (abort_ > Duration{0} && !expired_) look_by_ = std::min(look_by_, since + abort_);
  return report;
}

std::string AgreementWatch::line(std::uint64_t control, StepNumber step) const {
  std::vector<int> silent, behind;
  for (int member = 0; member < set_.size(); ++member) {
    if (member == set_.me()) continue;
    const std::optional<std::uint64_t> begun = controls_.answered(member);
    if (!begun) silent.push_back(set_.rank_of(member));
    if (begun && *begun <= control) behind.push_back(set_.rank_of(member));
  }
  std::string who;
  if (!silent.empty()) {
    who = text(ranks_text(silent), silent.size() == 1 ? " has" : " have", " not answered within ",
               seconds(kAnswersWithin), " s");
  }
  if (!behind.empty()) {
    who += text(who.empty() ? "" : ", ", ranks_text(behind), behind.size() == 1 ? " has" : " have", " not begun it");
  }
  if (who.empty()) who = "all ranks have begun it";
  return text("step ", step, ", after ", seconds(expired_ ? abort_ : warning_), " s: agreement ", control, " of set ",
              set_.number(), " is not complete: ", who);
}

}  // namespace stretto
