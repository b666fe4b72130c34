#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/train/loop/own_loop.h"

// How the loops of all ranks meet and part, and how they end.

namespace stretto {

std::vector<RankLoop*> OwnLoop::all_loops() const {
  std::vector<RankLoop*> loops = sessions_.loops();
  std::erase_if(loops, [](const RankLoop* loop) { return loop->failed(); });
  return loops;
}

void OwnLoop::rest() {
  if (state_ == State::resting) return;
  move_to(State::resting);
  do session_.finish(Others::end);
  while (!session_.rounds_over());
}

bool OwnLoop::drain() {
  require_going_on("drain()");
  if (!session_.members_change() || state_ == State::resting) return true;
  return call([&] {
    move_to(State::resting);
    session_.finish(Others::end);
    if (session_.rounds_over()) {
      const std::optional<Come> all = come_together(Come::drains);
      if (all && *all != Come::meets) return true;
      if (all) return false;
    }
    move_to(State::going);
    begun_ = false;
    return false;
  });
}

std::optional<OwnLoop::Come> OwnLoop::come_together(Come mine) {
  std::optional<Come> come;
  const auto met = session_.meet([&] {
    const auto all = gather(static_cast<std::uint64_t>(mine));
    const auto some_come = [&all](Come what) { return std::ranges::count(all, static_cast<std::uint64_t>(what)) > 0; };
    come = some_come(Come::meets) ? Come::meets : some_come(Come::drains) ? Come::drains : Come::finishes;
    if (come == Come::meets) compare(/*last=*/false);
    return come == Come::meets;
  });
  if (met == Session::Met::by_others || (come == Come::meets && met == Session::Met::no)) return std::nullopt;
  if (come != Come::meets) return come;
  hear(words_);
  move_to(State::met);
  part_with_members();
  return come;
}

void OwnLoop::finish_with_members() {
  for (;;) {
    rest();
    const std::optional<Come> all = come_together(Come::finishes);
    if (all == Come::finishes && session_.end([this] { compare(/*last=*/true); })) break;
    // Those that have drained alone come once more, to finish or to meet.
    if (!all || all == Come::finishes) move_to(State::going);
  }
  hear(words_);  // once nobody can go on in another world without them
}

void OwnLoop::meet_with_members() {
  for (;;) {
    rest();
    const auto met = session_.meet([this] {
      (void)gather(static_cast<std::uint64_t>(Come::meets));  // come_together() of those that do not
      compare(/*last=*/false);
      return true;
    });
    if (met == Session::Met::yes) hear(words_);
    parted_ = met == Session::Met::by_others;
    if (met != Session::Met::no) return move_to(State::met);
    move_to(State::going);
  }
}

void OwnLoop::part_with_members() {
  if (std::exchange(parted_, false)) {
    hear({});
  } else {
    session_.begin_again(applied_);
    if (session_.part([this] { gather_words(); }) == Session::Met::yes) hear(words_);
  }
  begun_ = false;
  move_to(State::going);
  begin_timing();
  waited_ = Duration(0);
}

bool OwnLoop::rest_within(Duration limit) {
  session_.meeting().set_timeout(limit);
  if (state_ == State::fresh) move_to(State::going);
  if (state_ != State::resting && session_.finish_within(limit)) move_to(State::resting);
  return state_ == State::resting;
}

std::vector<std::uint64_t> OwnLoop::gather(std::uint64_t mine) {
  std::vector<std::uint64_t> all;
  for (const Meeting::Numbers& numbers : session_.meeting().gather(session_.driver(), {mine}))
    all.push_back(numbers[0]);
  return all;
}

bool OwnLoop::some_meet(const std::vector<RankLoop*>& loops, bool finishes) {
  constexpr std::uint64_t kMeets = 0;
  const auto place = std::ranges::find(loops, static_cast<RankLoop*>(this)) - loops.begin() + 1;
  const auto all = loops.front()->gather(finishes ? static_cast<std::uint64_t>(place) : kMeets);
  if (std::ranges::count(all, kMeets) > 0) return true;
  const auto other = std::ranges::find_if(all, [&](std::uint64_t theirs) { return theirs != all[0]; });
  if (other != all.end()) {
    hold_until_all_know(*loops.front());
    throw UsageError(text("rank ", other - all.begin(), " finishes optimizer ", *other,
                          " of its optimizers, and rank 0 ", all[0],
                          ": expected finish() in the same order on every rank"));
  }
  return false;
}

int OwnLoop::finish(Others others) {
  require_going_on("finish()");
  return call([&] {
    const std::uint64_t before = rounds();
    if (session_.members_change()) {
      finish_with_members();
    } else if (others == Others::go_on) {
      if (state_ != State::resting) move_to(State::going);
      session_.finish(others);
    } else {
      const auto loops = all_loops();
      for (;;) {
        for (RankLoop* loop : loops) loop->rest();
        if (!some_meet(loops, /*finishes=*/true)) break;
        for (RankLoop* loop : loops) loop->come_together();
        for (RankLoop* loop : loops) loop->go_on();
      }
    }
    if (!session_.members_change()) compare(/*last=*/true);
    move_to(State::finished);
    sessions_.remove(*this);
    return static_cast<int>(rounds() - before);
  });
}

int OwnLoop::meet() {
  require_going_on("meet()");
  return call([&] {
    const std::uint64_t before = rounds();
    if (session_.members_change()) {
      meet_with_members();
      return static_cast<int>(rounds() - before);
    }
    const auto loops = all_loops();
    for (RankLoop* loop : loops) loop->rest();
    some_meet(loops, /*finishes=*/false);
    for (RankLoop* loop : loops) loop->come_together();
    return static_cast<int>(rounds() - before);
  });
}

void OwnLoop::come_together() {
  compare(/*last=*/false);
  move_to(State::met);
}

void OwnLoop::part() {
  if (state_ != State::met) throw UsageError("part() without meet()");
  call([&] {
    if (session_.members_change()) {
      part_with_members();
    } else {
      for (RankLoop* loop : all_loops()) loop->go_on();
    }
    return true;
  });
}

void OwnLoop::go_on() {
  rounds_before_ += session_.recipe().rounds();
  ledger_.close();
  history_.begin_again();
  session_.begin_again(applied_);
  session_.meeting().gather(session_.driver(), {});  // all ranks have come to part()
  gather_words();
  hear(words_);
  begun_ = false;
  move_to(State::fresh);
  begin_timing();
  waited_ = Duration(0);
}

void OwnLoop::compare(bool last) {
  session_.meeting().average_buffers(session_.driver());
  const Session::Comparison found = session_.compare(deposits_);
  gather_words();
  if (!session_.members_change()) hear(words_);
  identical_ = found.differ.empty();
  if (last) {
    ledger_.close();
    // How many the lost ones have made is not known.
    if (!session_.members_change()) ledger_.set_deposits(found.deposits, 0, found.counts);
    if (reporter_.wanted()) {
      LoopReport report = report_of(ledger_);
      report.algorithm = options_.algorithm;
      report.replicas_identical = *identical_;
      reporter_.finish(report);
    }
    if (!environment_.out.empty()) {
      reporter_.bring_together(session_.world().engine(), session_.meeting(), session_.driver());
    }
  }
  if (*identical_ || options_.allow_different) return;
  hold_until_all_know(*this);
  const Engine& engine = session_.world().engine();
  std::string differ;
  for (const auto& [rank, in_parameters] : found.differ) {
    differ += text(differ.empty() ? "" : ", ", engine.name_of(rank), in_parameters ? "" : " (the optimizer's state)");
  }
  throw Failure(
      {Errc::diverged,
       text("replicas differ from that of ", engine.name_of(0), ": ", differ, session_.why_parted().empty() ? "" : "; ",
            session_.why_parted(), "; step() alone may move the weights, not that of the wrapped optimizer"),
       found.differ[0].rank});
}

void OwnLoop::gather_words() {
  if (hooks_.tell_ranks) words_ = session_.meeting().gather_lists(session_.driver(), hooks_.tell_ranks());
}

// A rank that goes at once would stop the others in the exchange by which they are about to see the same.
void OwnLoop::hold_until_all_know(RankLoop& loop) {
  try {
    loop.gather(0);
  } catch (const Failure&) {  // NOLINT(bugprone-empty-catch): a rank has gone that knows
  }
}

// In a destructor: nothing may be thrown.
void OwnLoop::end() noexcept {
  if (ended() || session_.forked()) return;
  try {
    if (session_.members_change()) {
      // What an exception ends is this rank alone, and a loss.
      if (!session_.failed() && std::uncaught_exceptions() <= exceptions_) finish();
      return;
    }
    if (session_.failed()) return session_.abort("an exception has ended this rank's loop");
    if (std::uncaught_exceptions() > exceptions_) return session_.abort("an exception has ended this rank's loop");
    if (state_ == State::met) part();
    const auto loops = all_loops();
    for (RankLoop* loop : loops) {
      if (!loop->rest_within(options_.finish_timeout)) return session_.abort("the others did not finish in time");
    }
    if (some_meet(loops, /*finishes=*/true)) {
      return session_.abort("an optimizer has gone before the loops of other ranks have ended");
    }
    compare(/*last=*/true);
    sessions_.remove(*this);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stretto: %s\n", error.what());
  }
}

}  // namespace stretto
