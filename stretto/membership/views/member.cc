#include "stretto/membership/views/member.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"

namespace stretto {

Member::Member(MemberNumber number, std::string host, std::map<std::string, std::string> terms)
    : number_(number), host_(std::move(host)), terms_(std::move(terms)) {}

bool Member::has_gone(bool told_to) const {
  // Where the job is given up it may have been about to say so.
  return standing_ == Standing::departed || (standing_ == Standing::given_up && (leaving_ || told_to));
}

void Member::require_present() const {
  if (standing_ == Standing::given_up) {
    throw Failure({Errc::aborted, "the job has ended: too few of its members were left"});
  }
  if (standing_ == Standing::excluded) {
    throw Failure({Errc::excluded, text("the others have gone on without member ", number_)});
  }
}

bool Member::freeze(std::uint64_t epoch) {
  if (standing_ != Standing::present) return false;
  if (epoch < view_->epoch && !defect(Defect::members_past_freeze)) return false;
  frozen_ = std::max(frozen_.value_or(0), epoch);
  return true;
}

ReportWords Member::report(std::uint64_t epoch, const Holding& holding) const {
  STRETTO_CHECK(frozen_ && *frozen_ >= epoch, "member ", number_, " reports in epoch ", epoch, ", not stopped");
  ReportWords report{number_, epoch, holding, leaving_};
  if (defect(Defect::members_answer_of_view) && view_->epoch > 0 && !has_begun_) {
    report.holding.held = std::max(holding.held, static_cast<RoundsHeld>(view_->complete));
  }
  return report;
}

void Member::tell(const std::shared_ptr<const Registered>& content) {
  if (standing_ != Standing::present) return;
  const View& view = content->view;
  if (view.epoch < view_->epoch || (told_ && view.epoch < told_->epoch)) return;
  const bool was_in = view_->epoch > 0 || told_ != nullptr;
  if (content->end == JobEnd::done && defect(Defect::members_end_for_all)) {
    standing_ = Standing::finished;
    return;
  }
  hear_of_view(std::shared_ptr<const View>(content, &view));
  if (standing_ != Standing::present || content->end == JobEnd::none) return;
  if (content->end == JobEnd::given_up) {
    standing_ = Standing::given_up;
  } else if (!was_in || (view.epoch == view_->epoch && view.has(number_))) {
    standing_ = Standing::finished;
  }
}

void Member::hear_of_view(const std::shared_ptr<const View>& view) {
  if (view->has(number_)) {
    if (view->epoch > view_->epoch) told_ = view;
  } else if (view->has_departed(number_) || (leaving_ && defect(Defect::members_takes_leave))) {
    standing_ = Standing::departed;
  } else if (!view->may_come_in(number_)) {
    standing_ = Standing::excluded;
  }
}

std::shared_ptr<const View> Member::next() const {
  if (standing_ != Standing::present || !told_) return nullptr;
  if (frozen_ && *frozen_ >= told_->epoch) return nullptr;
  return told_;
}

const View& Member::enter() {
  STRETTO_CHECK(next(), "member ", number_, " enters no view");
  view_ = std::exchange(told_, nullptr);
  has_begun_ = done_ = false;
  return *view_;
}

bool Member::begin() {
  if ((is_frozen() && !defect(Defect::members_begins_stopped)) || view_->epoch == 0) return false;
  has_begun_ = true;
  return true;
}

bool Member::finish() {
  if (!has_begun_) return false;
  done_ = true;
  if (defect(Defect::members_end_unasked)) standing_ = Standing::finished;
  return true;
}

HelloWords Member::hello() const {
  return {number_, host_, std::max(view_->epoch, told_ ? told_->epoch : 0), frozen_, terms_};
}

void Member::describe(std::vector<std::int64_t>& words) const {
  const auto put = [&](auto word) { words.push_back(static_cast<std::int64_t>(word)); };
  put(number_);
  put(standing_);
  put(view_->epoch);
  put(told_ ? told_->epoch : 0);
  put(frozen_ ? static_cast<std::int64_t>(*frozen_) : -1);
  put(has_begun_ + 2 * done_ + 4 * leaving_);
}

}  // namespace stretto
