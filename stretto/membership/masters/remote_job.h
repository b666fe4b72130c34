#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/membership/masters/job_address.h"
#include "stretto/membership/masters/job_of_members.h"
#include "stretto/membership/views/member_words.h"
#include "stretto/transport/hosts/hello.h"

namespace stretto {

class MasterLine;
struct MasterWords;
struct ProcessWords;

/// A job whose master is in another process, of this host or another one. A thread of its own hears that.
class RemoteJob final : public JobOfMembers {
 public:
  struct Options {
    JobAddress at = {};
    Token token{};                                      ///< of the job
    Duration answer_within = std::chrono::seconds(10);  ///< each question, before the master counts as gone
    /// Is told where the master is silent, and when it is not any more; empty: fulfil_wishes() tells it.
    std::function<void(const std::string& line)> tell = {};
  };
  /// Throws Failure (Errc::unavailable) where no master of the job answers there. Where it is found by etcd this goes
  /// on with the next one, as long as the master has said that another may come.
  explicit RemoteJob(Options options);
  ~RemoteJob() override;
  RemoteJob(const RemoteJob&) = delete;
  RemoteJob& operator=(const RemoteJob&) = delete;

  MemberPlace give_place(std::optional<int> wish) override;
  void lose(MemberNumber number) override;
  Registered known() override;
  void send_away(MemberNumber number) override;
  void fulfil_wishes(Kill kill, Tell tell) override;

  /// As of known().
  JobBeside beside() const;
  /// Whether there is no master any more.
  bool is_gone() const;
  /// Whether nothing comes from the master's host, for the liveness of the job, or it has not said since who is lost:
  /// another connection is tried, and no question is answered meanwhile.
  bool is_silent() const;

 private:
  void hear(const MasterWords& words);
  void be_silent(bool is_silent, Duration limit);
  /// The master may have lost this host, and nobody knows before it has been asked.
  void be_unsettled();
  /// Over another connection, which knows nothing of the one before.
  void begin_anew();
  void ask_who_is_lost();
  void tell(const std::string& line) { options_.tell ? options_.tell(line) : to_tell_.push_back(line); }
  /// Says it, and waits until `answered_` has counted up.
  void ask(const ProcessWords& words);
  void require_master() const;

  const Options options_;
  mutable std::mutex mutex_;
  mutable std::condition_variable heard_;
  std::uint64_t asked_ = 0, answered_ = 0;  // questions
  std::uint64_t settled_at_ = 0;            // so many answers after a silence, or a connection that has ended
  Registered known_;
  JobBeside beside_;
  std::optional<MemberPlace> place_;  // the last that was given
  std::string refused_;
  std::vector<std::pair<MemberNumber, Fate>> to_kill_;
  std::map<MemberNumber, int> places_;  // of processes, for which this one has asked, by their numbers
  std::vector<std::string> to_tell_;
  bool silent_ = false;
  bool is_asked_since_ = false;       // who is lost, since the last silence
  std::string gone_;                  // why there is no master any more
  std::unique_ptr<MasterLine> line_;  // ends first
};

}  // namespace stretto
