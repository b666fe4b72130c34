#include "stretto/ordering/waiting/stall.h"

#include <algorithm>
#include <string_view>

#include "stretto/base/words.h"

namespace stretto {
namespace {

/// "norm.3: ranks 0, 1 wait, rank 2 has not", with the words for one rank and for several.
std::string who_lacks(const StallReport::Tensor& tensor, std::string_view one, std::string_view several) {
  std::string out = tensor.name + ":";
  if (!tensor.waiting.empty()) {
    out += text(' ', ranks_text(tensor.waiting), ' ', tensor.waiting.size() == 1 ? one : several);
  }
  if (tensor.lacking.empty()) return out;
  return out + text(tensor.waiting.empty() ? " " : ", ", ranks_text(tensor.lacking),
                    tensor.lacking.size() == 1 ? " has not" : " have not");
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) out += text(i == 0 ? " " : ", ", ranks[i]);
  return out;
}

std::string StallReport::circle() const {
  std::string out;
  for (const Tensor& tensor : tensors) out += (out.empty() ? "" : "; ") + who_lacks(tensor, "waits", "wait");
  return out;
}

std::string StallReport::to_text() const {
  std::string out;
  for (const Tensor& tensor : tensors) out += (out.empty() ? "" : "; ") + who_lacks(tensor, "has it", "have it");
  for (const Rank& rank : ranks) {
    const bool lacks =
        std::ranges::any_of(tensors, [&](const Tensor& t) { return std::ranges::count(t.lacking, rank.rank) > 0; });
    if (lacks) out += text("; rank ", rank.rank, ' ', rank.does);
  }
  return out;
}

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
