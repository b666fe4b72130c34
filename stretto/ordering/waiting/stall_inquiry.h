#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/ordering/waiting/stall.h"
#include "stretto/ordering/waiting/stall_messages.h"

namespace stretto {

/// Asks the other members of a process set, where this member waits for long, what they have of the buffer that it
/// waits for, and puts their answers into one line: WHO(b) of docs/lab/ordering.md. Passes on what the others ask,
/// too. No messages but where this member waits for long: one question and one answer for each other
/// member. Owned by one thread.
class StallInquiry {
 public:
  /// `ranks`: of the job, by member. `warning`, `abort`: those of StallLimits.
  StallInquiry(int set, std::vector<int> ranks, int member, Duration warning, Duration abort)
      : set_(set), ranks_(std::move(ranks)), member_(member), limits_(warning, abort) {}

  // ---- this member asks ----

  /// The wait of this member.
  struct Wait {
    std::uint64_t step = 0;
    std::uint64_t buffer = 0;  ///< that has to be complete for that
    std::string tensor;        ///< a tensor of the buffer
    bool blocks = false;       ///< the application waits for this very tensor; else for the end of the step
  };
  /// This member waits since `since`; nothing: it does not. Returns whether ask() is to be called now.
  bool due(std::optional<TimePoint> since, TimePoint now);
  /// Requires: due().
  void ask(Wait wait);
  /// The question to which all have answered, or have had their time; report() is to be called then.
  const StallQuestion* complete(TimePoint now) const;
  /// Ends the question. `mine`: what this member itself would answer. Requires: complete().
  StallNotice report(StallAnswer mine);
  /// When due() or complete() may say something else though nothing happens.
  TimePoint next_look(std::optional<TimePoint> since) const;

  // ---- messages ----

  /// Takes a letter that a member has sent. Errc::bad_input for bytes that are none.
  Result<void> take(int member, std::span<const std::byte> bytes);
  /// A question of another member that is not answered yet, and that member.
  std::optional<std::pair<int, StallQuestion>> take_question();
  void answer(int member, const StallAnswer& answer) { letters_.emplace_back(member, encode_stall(answer)); }
  /// The next letter to send, and the member that it goes to.
  std::optional<std::pair<int, std::vector<std::byte>>> take_letter();

 private:
  struct Open {
    StallQuestion question;
    Wait wait;
    std::vector<std::optional<StallAnswer>> answers;  // by member
  };

  // Fixed after construction.
  const int set_;
  const std::vector<int> ranks_;
  const int member_;

  std::optional<TimePoint> since_;
  StallLimits limits_;       // of the wait since then
  std::uint64_t asked_ = 0;  // questions
  std::optional<Open> open_;
  std::deque<std::pair<int, StallQuestion>> questions_;
  std::deque<std::pair<int, std::vector<std::byte>>> letters_;
};

}  // namespace stretto
