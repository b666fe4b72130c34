#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/membership/etcd/etcd.h"

namespace stretto {

/// A launcher of a job that stands for the office of the job's master: one has it at a time, by a lease in etcd on the
/// key stretto/NAME/master, where the address of its master stands. Where that launcher is gone, stopped or cut off
/// from etcd, another one has the office soon after the lease. The office keeps no two masters apart, since one that is
/// stopped or cut off does not know that it is none any more: the register decides. A thread of its own asks etcd.
class Candidacy {
 public:
  /// Called on that thread.
  struct Hooks {
    /// This launcher has the office, for the term of that number, which is larger than those before: makes the job's
    /// master, and returns its address, "HOST:PORT". It is called again after `end`. With a Failure this launcher
    /// stands no more.
    std::function<std::string(std::uint64_t term)> begin;
    /// Nobody else has the office before `until`; afterwards another one may, where this is not called again: etcd may
    /// not answer, or this process may not have run.
    std::function<void(TimePoint until)> holds;
    std::function<void()> end;                          ///< it has the office no more
    std::function<void(const std::string& line)> tell;  ///< to a person
  };
  /// The shortest lease that etcd gives.
  static constexpr std::chrono::seconds kShortest{2};

  /// Throws Failure as WebClient.
  Candidacy(const EtcdAddress& at, std::chrono::seconds lease, Hooks hooks);
  ~Candidacy();  ///< gives the office back, if it has it
  Candidacy(const Candidacy&) = delete;
  Candidacy& operator=(const Candidacy&) = delete;

  /// The address of the master of a job, as the launcher that has the office says. Nothing: none has it, or etcd does
  /// not answer.
  static std::optional<std::string> master_in(Etcd& etcd, const std::string& job);

 private:
  void stand(const std::stop_token& ended);
  void look();
  bool take();
  void begin();
  void stay();
  void leave();

  const std::string key_;
  const std::chrono::seconds length_;
  const Hooks hooks_;
  const SteadyClock clock_;
  // The thread's.
  Etcd etcd_;
  Etcd::Lease lease_ = 0;        // 0: none, or it has ended
  Etcd::Revision revision_ = 0;  // of the key, as it was taken last
  TimePoint ends_;               // the lease, not before then
  bool stands_ = true, has_office_ = false, is_away_ = false;

  std::mutex mutex_;
  std::condition_variable_any over_;
  std::jthread thread_;  // ends first
};

}  // namespace stretto
