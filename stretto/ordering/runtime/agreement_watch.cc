#include "stretto/ordering/runtime/agreement_watch.h"

#include <algorithm>
#include <vector>

#include "stretto/base/words.h"
#include "stretto/ordering/waiting/stall.h"

namespace stretto {

std::optional<StallNotice> AgreementWatch::look(std::optional<TimePoint> waits, StepNumber step, TimePoint now) {
  const std::optional<std::uint64_t> control = agreement_.incomplete();
  if (control != control_ || !waits) {
    control_ = control;
    seen_at_ = now;
    limits_.begin();
  }
  look_by_ = TimePoint::never();
  if (!control || !waits) return std::nullopt;
  const TimePoint since = std::max(seen_at_, *waits);
  if (limits_.ask(since, now)) agreement_.ask(*control);
  std::optional<StallNotice> notice;
  if (limits_.over(agreement_.all_have_answered(), now)) {
    notice = StallNotice{text(limits_.heading(step), "agreement ", *control, " of set ", set_.number(),
                              " is not complete: ", who_lacks(*control))};
    notice->fails = limits_.close();
  }
  look_by_ = limits_.next_look(since);
  return notice;
}

std::string AgreementWatch::who_lacks(std::uint64_t control) const {
  std::vector<int> silent, behind;
  for (int member = 0; member < set_.size(); ++member) {
    if (member == set_.me()) continue;
    const std::optional<std::uint64_t> begun = agreement_.answered(member);
    if (!begun) silent.push_back(set_.rank_of(member));
    if (begun && *begun <= control) behind.push_back(set_.rank_of(member));
  }
  std::string who;
  if (!silent.empty()) who = StallLimits::silence(silent);
  if (!behind.empty()) {
    who += text(who.empty() ? "" : ", ", ranks_text(behind), behind.size() == 1 ? " has" : " have", " not begun it");
  }
  return who.empty() ? "all ranks have begun it" : who;
}

}  // namespace stretto
