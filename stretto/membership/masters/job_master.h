#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/membership/masters/job_address.h"
#include "stretto/membership/masters/job_of_members.h"
#include "stretto/membership/views/view.h"
#include "stretto/transport/hosts/hello.h"

namespace stretto {

/// The master of a job whose members change, in the process that has started it: it keeps the register, and listens
/// with a thread of its own. The owner's thread alone calls.
class JobMaster final : public JobOfMembers {
 public:
  struct Options {
    Token token{};  ///< of the job
    /// An address of this host, at which the master listens. Empty: the first that other hosts may reach
    /// (addresses_of_interfaces(wanted_interfaces())), or the loopback one where there is no such address. 0.0.0.0 and
    /// ::, all addresses: address() is that one.
    std::string listen = "127.0.0.1";
    std::uint16_t port = 0;                    ///< where it listens; 0: any
    int least = 1;                             ///< members with which the job goes on
    int most = 1;                              ///< members at a time
    int first = 0;                             ///< the first view has as many, or those that are left; 0: `most`
    int places = 0;                            ///< processes at a time, as many as members at least; 0: as many
    int given = 0;                             ///< so many processes have numbers, from 0 on, and places
    Duration wait = Duration(0);               ///< for members, where too few are left, before the job is given up
    Duration wait_to_leave = Duration(0);      ///< the same, where members leave and too few would be left
    Duration evict = Duration(0);              ///< MasterOptions::evict
    std::vector<std::uint64_t> position = {};  ///< View::position before the first view
    std::vector<std::string> program = {};     ///< JobBeside::program
    Duration liveness = Duration(0);           ///< MasterServerOptions::liveness
    bool reads_reports = false;                ///< MasterServerOptions::reads_reports
    /// The file of the register (LogRegister), or where it lies in etcd (EtcdAddress), and of which job that is:
    /// another master goes on from there, and for `wait` members come back to it at the same address. Empty: the
    /// register ends with this process.
    std::string log = {}, job = {};
    bool is_next = false;    ///< MasterServerOptions::is_next
    std::uint64_t term = 0;  ///< Register::term()
  };
  /// Throws Failure (Errc::unavailable) where the port is taken, or the address is not this host's; and as
  /// LogRegister::open().
  explicit JobMaster(const Options& options);
  ~JobMaster() override;
  JobMaster(const JobMaster&) = delete;
  JobMaster& operator=(const JobMaster&) = delete;

  /// The content of the register of a job (Options::log and `job`), which an earlier master may have left; `tell` is
  /// told what a file has lost. Throws Failure as above.
  static Registered left_in(const std::string& log, const std::string& job,
                            FunctionRef<void(const std::string& damage)> tell);

  /// Where members come.
  JobAddress address() const;
  std::uint16_t port() const { return address().port; }  ///< of address()
  MemberPlace give_place(std::optional<int> wish) override;
  void lose(MemberNumber number) override;
  Registered known() override;
  void send_away(MemberNumber number) override;
  void fulfil_wishes(Kill kill, Tell tell) override;
  /// Register::reports().
  Result<std::map<MemberNumber, std::string>> reports();
  /// How many processes are connected, of members and of others that look at the job.
  std::size_t visitors();
  /// MasterServer::hold_office().
  void hold_office(TimePoint until);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
