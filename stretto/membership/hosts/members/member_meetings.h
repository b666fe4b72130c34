#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "stretto/membership/hosts/bulletin.h"
#include "stretto/membership/hosts/members/link_words.h"

namespace stretto {

/// Where members of a job on several hosts meet, all those of a view or some of them: the first of a meeting leaves its
/// words with the master, which tells the others. Any thread.
class MemberMeetings {
 public:
  /// `say`: to the master.
  explicit MemberMeetings(std::function<void(const ProcessWords& words)> say) : say_(std::move(say)) {}

  /// For one meeting, which lasts as long as the bulletin: that of a view's members, or with a name another one, which
  /// may be met again by it. To be dropped before this.
  std::shared_ptr<Bulletin> bulletin(int rank, int ranks, std::uint64_t epoch, const std::string& name = "");
  /// The master has told where others meet.
  void hear(const MasterWords& words);
  /// Says to the master again what it may have lost.
  void say_again();

 private:
  class OfMeeting;
  using Key = std::pair<std::uint64_t, std::string>;  // epoch, or 0, and name

  const std::function<void(const ProcessWords& words)> say_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::string> told_;
  std::map<Key, ProcessWords> said_;  // by this member, as the first of a meeting
};

}  // namespace stretto
