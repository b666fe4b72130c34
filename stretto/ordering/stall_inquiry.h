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
#include "stretto/ordering/negotiation/stall_messages.h"

namespace stretto {

/// Asks the other members of a process set, where this member waits for long, what they have of the buffer that it
/// waits for, and puts their answers into one line: WHO(b) of docs/ordering.md, "Who hangs is told". Passes on what the
/// others ask, too. No messages but where this member waits for long: one question and one answer for each other
/// member. Owned by one thread.
class StallInquiry {
 public:
  /// How long a question waits for answers: a member whose thread does not drive the engine gives none.
  static constexpr Duration kAnswersWithin = std::chrono::seconds(1);

  /// `ranks`: of the job, by member. `warning`: after so long a line is made; `abort`: and an error, 0: never.
  StallInquiry(int set, std::vector<int> ranks, int member, Duration warning, Duration abort)
      : set_(set), ranks_(std::move(ranks)), member_(member), warning_(warning), abort_(abort) {}

  // ---- this member asks ----

  /// What this member waits for.
  struct Wait {
    std::uint64_t step = 0;
    std::uint64_t buffer = 0;  ///< that has to be complete for that
    std::string tensor;        ///< a tensor of the buffer
    bool blocks = false;       ///< the application waits for this very tensor; else for the end of the step
  };
  /// This member waits since `since`; nothing: it does not. Returns whether to ask().
  bool due(std::optional<TimePoint> since, TimePoint now);
  /// Requires: due().
  void ask(Wait wait, TimePoint now);
  /// The question to which all have answered, or have had their time; report() is to be called then.
  const StallQuestion* complete(TimePoint now) const;
  struct Report {
    /// "step 12, after 10 s: head: ranks 0, 2 have it, rank 1 has not; rank 1 has computed for 9.8 s".
    std::string line;
    bool fails = false;  ///< the time limit is over: the job fails with the line
  };
  /// Ends the question. `mine`: what this member itself would answer. Requires: complete().
  Report report(StallAnswer mine);
  /// When due() or complete() may say something else though nothing happens.
  TimePoint next_look(std::optional<TimePoint> since) const;

  // ---- messages ----

  /// What a member has sent. Errc::bad_input for anything else.
  Result<void> take(int member, std::span<const std::byte> bytes);
  /// A question of another member that is not answered yet, and that member.
  std::optional<std::pair<int, StallQuestion>> take_question();
  void answer(int member, const StallAnswer& answer) { letters_.emplace_back(member, encode_stall(answer)); }
  /// What is to be sent next, and to which member.
  std::optional<std::pair<int, std::vector<std::byte>>> take_letter();

 private:
  struct Open {
    StallQuestion question;
    Wait wait;
    TimePoint at;
    bool fails = false;
    std::vector<std::optional<StallAnswer>> answers;  // by member
  };

  // Fixed after construction.
  const int set_;
  const std::vector<int> ranks_;
  const int member_;
  const Duration warning_, abort_;

  std::optional<TimePoint> since_;
  bool warned_ = false;  // of the wait since then
  bool expired_ = false;
  std::uint64_t asked_ = 0;  // questions
  std::optional<Open> open_;
  std::deque<std::pair<int, StallQuestion>> questions_;
  std::deque<std::pair<int, std::vector<std::byte>>> letters_;
};

}  // namespace stretto
