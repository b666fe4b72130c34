#include "stretto/ordering/waiting/stall_limits.h"

#include <algorithm>

#include "stretto/base/words.h"
#include "stretto/ordering/waiting/stall.h"

namespace stretto {

void StallLimits::begin() {
  warned_ = expired_ = false;
  asked_at_.reset();
}

bool StallLimits::ask(TimePoint since, TimePoint now) {
  const bool expires = abort_ > Duration{0} && now - since >= abort_ && !expired_;
  expired_ |= expires;
  if (asked_at_ || (!expires && (warned_ || now - since < warning_))) return false;
  warned_ = true;
  asked_at_ = now;
  return true;
}

bool StallLimits::over(bool all_have_answered, TimePoint now) const {
  return asked_at_ && (all_have_answered || now - *asked_at_ >= kAnswersWithin);
}

bool StallLimits::close() {
  asked_at_.reset();
  return expired_;
}

TimePoint StallLimits::next_look(TimePoint since) const {
  if (asked_at_) return *asked_at_ + kAnswersWithin;
  TimePoint when = TimePoint::never();
  if (!warned_) when = since + warning_;
  if (abort_ > Duration{0} && !expired_) when = std::min(when, since + abort_);
  return when;
}

std::string StallLimits::heading(std::uint64_t step) const {
  return text("step ", step, ", after ", seconds(expired_ ? abort_ : warning_), " s: ");
}

std::string StallLimits::silence(const std::vector<int>& ranks) {
  return text(ranks_text(ranks), ranks.size() == 1 ? " has" : " have", " not answered within ", seconds(kAnswersWithin),
              " s");
}

}  // namespace stretto
