#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// Which ranks of a process set wait for which tensors that others have not submitted, for a person. Ranks are those
/// of the job.
struct StallReport {
  struct Tensor {
    std::string name;
    std::vector<int> waiting;  ///< have submitted it
    std::vector<int> lacking;  ///< have not, and some may still
  };
  struct Rank {
    int rank = 0;
    std::string does;  ///< "computes", "waits for head"
  };
  std::vector<Tensor> tensors;
  std::vector<Rank> ranks;  ///< of all members

  /// "norm.3: ranks 0, 1 wait, rank 2 has not; head: rank 2 waits, ranks 0, 1 have not"
  std::string circle() const;
  /// Who has each tensor, who has not, and what those do: "norm.3: ranks 0, 1 have it, rank 2 has not; rank 2
  /// computes".
  std::string to_text() const;
};

/// "rank 2", "ranks 0, 1".
std::string ranks_text(const std::vector<int>& ranks);

/// The notice of a rank that has waited for long.
struct StallNotice {
  /// "step 12, after 10 s: head: ranks 0, 2 have it, rank 1 has not; rank 1 has computed for 9.8 s".
  std::string line;
  bool fails = false;  ///< the time limit is over: the job fails with the line
};

/// When a rank that waits for others asks them why, how long it waits for their answers, and when its time is over:
/// docs/ordering.md, "Who hangs is told". Each limit counts once in a wait. Owned by one thread.
class StallLimits {
 public:
  /// How long a question waits for answers: a rank whose thread does not drive the engine gives none.
  static constexpr Duration kAnswersWithin = std::chrono::seconds(1);

  /// `warning`: after so long a line is made; `abort`: and an error, 0: never.
  StallLimits(Duration warning, Duration abort) : warning_(warning), abort_(abort) {}

  /// Another wait begins, or none: a question that is open is of no interest any more.
  void begin();
  /// Whether to ask now in a wait since `since`: never while a question is open. Opens it.
  bool ask(TimePoint since, TimePoint now);
  /// Whether a question is open and over: all have answered, or have had their time.
  bool over(bool all_have_answered, TimePoint now) const;
  /// Closes the question. Requires: over(). Returns whether the time limit is over.
  bool close();
  /// When ask() or over() may say something else in a wait since `since` though nothing happens.
  TimePoint next_look(TimePoint since) const;

  /// "step 12, after 10 s: ", of the limit that was reached last.
  std::string heading(std::uint64_t step) const;
  /// "rank 1 has not answered within 1 s". Requires: some.
  static std::string silence(const std::vector<int>& ranks);

 private:
  const Duration warning_, abort_;

  bool warned_ = false;  // of this wait
  bool expired_ = false;
  std::optional<TimePoint> asked_at_;  // the question that is open
};

}  // namespace stretto
