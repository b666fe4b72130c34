#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/shared_counter.h"
#include "stretto/membership/world.h"
#include "stretto/transport/transport.h"

namespace stretto {

class Changes;  // membership/changes.h

/// One rank's part of a job: its place, its transport and what all ranks share. The launcher makes it and hands it to
/// RankMain. Application thread, but where a part says otherwise.
class RankContext {
 public:
  virtual ~RankContext() = default;              ///< owned by the launcher, until the rank's function has returned
  virtual int rank() { return world().rank(); }  ///< this rank's number, 0 … size() − 1
  virtual int size() { return world().size(); }  ///< ranks of the job
  /// This rank's number among those of its host, 0 … local_size() − 1: to choose a device by. Where members of the job
  /// change it stays this process's, and is below the number of members at a time.
  virtual int local_rank() { return world().transport().members().place_of(rank()); }
  int local_size() { return static_cast<int>(world().host().members.size()); }  ///< ranks of this host
  /// The ranks of the job, and the engine over their transport: no second one over it. Asked for anew in each call
  /// that uses it: who keeps more of it than a Session does speaks of ranks that may be others by now.
  virtual World& world() = 0;
  /// Counter `index` of the job, 0 … kNumCounters−1, 0 at the start. Same object for the same index. The upper half is
  /// for borrow_counter().
  virtual SharedCounter& counter(int index) = 0;
  /// JobOptions::extra_bytes of memory, 0 at the start, the same for all ranks; empty where not all share one.
  virtual std::span<std::byte> extra() = 0;
  /// How far this host's steady clock is ahead of that of rank 0's host, as beats between hosts have measured it so
  /// far. None: not yet.
  virtual std::optional<Duration> clock_offset() { return Duration::zero(); }
  /// The membership of this rank where members of the job change; null: they stay the same.
  virtual Changes* changes() { return nullptr; }
  /// The job is being stopped by SIGINT or SIGTERM: what happens to this rank's peers is no failure.
  virtual bool interrupted() = 0;
  /// Hands `text` to the process that started the job: JobResult::reports[rank]. Before the rank returns. Throws
  /// UsageError the second time.
  virtual void report(std::string text) = 0;
  /// Says why this rank is about to return something else than 0. Of all ranks the first that fails by itself is heard;
  /// one whose error is another rank's (Errc::lost_peer, Errc::aborted) only where no rank fails by itself.
  virtual void complain(const Error& error) = 0;

  /// The one T that a room above keeps for the rank, made when it is first asked for.
  template <class T>
  T& part() {
    std::shared_ptr<void>& part = parts_[typeid(T)];
    if (part == nullptr) part = std::make_shared<T>();
    return *static_cast<T*>(part.get());
  }

  static constexpr int kNumCounters = 16;  ///< counters a job has

  /// Lends a counter of the upper half that nobody has borrowed, whatever it stands at; the lower half is the caller's
  /// own. The same on every rank where all borrow and give back in the same order. Throws UsageError for the ninth.
  int borrow_counter();
  /// Gives back what borrow_counter() has returned; it keeps its value.
  void give_back_counter(int index) { borrowed_ &= ~(1u << index); }

 private:
  std::map<std::type_index, std::shared_ptr<void>> parts_;
  std::uint32_t borrowed_ = 0;  // a bit each
};

/// Ends the calls of a rank that leaves a job whose members change, as it wished or by SIGTERM: the others go on
/// without it, and all that it has handed over counts. A rank whose function it ends is not lost, and its exit status
/// is 0.
class Left : public Failure {
 public:
  /// With Errc::excluded.
  explicit Left(std::string why = "this rank has left the job") : Failure({Errc::excluded, std::move(why)}) {}
};

/// The function that a rank runs. Its return value is the exit status of the rank: 0 says goodbye to the others,
/// anything else (and an exception other than Left) tells them that this rank is lost. A parent sees its lowest eight
/// bits, or 1 where these are 0.
using RankMain = std::function<int(RankContext&)>;

/// How a job is started and ended.
struct JobOptions {
  int ranks = 1;  ///< processes; not asked where mpirun or srun has started the ranks
  /// The job goes on without ranks that are lost as long as so many are left (RankContext::changes()); 0: it does not.
  /// Where it is not 0 a loss is no failure, extra_bytes are 0, and there are no counters.
  int least = 0;
  /// With it: where the job's batches go on, as those who hand them out write it; empty: at their start.
  std::vector<std::uint64_t> position = {};
  /// Bytes of shared memory beside the transport's own, mapped by all ranks; 0 for none.
  std::uint64_t extra_bytes = 0;
  /// Called on the parent's thread about ten times a second while the ranks run (progress display).
  std::function<void()> while_running;
  /// Called in each rank before its function.
  std::function<void(RankContext&)> prepare;
  /// Is told at once, on the parent's thread, what goes wrong first: "rank 1 is lost: killed by SIGKILL", or what a
  /// rank's function has thrown. What other ranks throw because of it is not told. Empty: a line on stderr.
  std::function<void(const std::string& line)> tell;
  /// Once a rank is lost the others have this long to end by themselves before they are killed.
  Duration grace_after_loss = std::chrono::seconds(30);
  /// The same after SIGINT, SIGTERM, SIGHUP or SIGQUIT, which is passed on to the ranks as SIGTERM.
  Duration grace_after_interrupt = std::chrono::seconds(2);
  std::optional<Duration> liveness = {};          ///< JoinOptions::liveness, of ranks that something else has started
  std::string between = {};                       ///< JoinOptions::between, of the same
  std::map<std::string, std::string> terms = {};  ///< JoinOptions::terms, of the same
};

/// How the ranks of a job have ended.
struct JobResult {
  std::vector<int> exit_status;      ///< per rank; 128 + signal for a killed one
  std::vector<std::string> reports;  ///< per rank; empty where there is none
  int first_lost = -1;               ///< the rank that died first by a signal that we did not send, or −1
  bool interrupted = false;          ///< SIGINT, SIGTERM, SIGHUP or SIGQUIT came while the ranks ran
  /// With JobOptions::least: the job has reached its end, whoever was lost; else false.
  bool reached_end = false;
  std::string cause;  ///< what JobOptions::tell was told; empty if nothing
  /// Nothing but zeros, or the end reached, and not interrupted.
  bool ok() const;
};

/// Shared memory that a job takes at most (pages are taken when used), in bytes, without what its collectives take of
/// the arena when they are made. Throws as run_job().
std::uint64_t job_memory_bytes(const JobOptions& options);

/// Runs `main` in `options.ranks` processes forked from this one, over shared memory, and waits for all of them.
/// The children die with their parent; a killed one is noticed by the others within a second; nothing is left behind.
/// A child ignores SIGINT, SIGHUP and SIGQUIT (a terminal sends them to all; the parent decides) and leaves without
/// destructors of statics. Other threads of this process have to sleep, and are not there in the ranks; then each rank
/// runs `main` in a thread of its own, so that OpenMP, and with it LibTorch, starts afresh there. A process that a rank
/// forks must leave `main` by _exit() or exec(). Requires: no other child of this process is waited for meanwhile, and
/// no other thread runs a job: signals are the process's.
/// Errc::unavailable names the shared memory needed when there is too little, and refuses where
/// launched_from_outside(); Errc::io if no process can be made. Throws UsageError for a number of ranks below 1 or
/// above 1,024, for a STRETTO_SHM_LIMIT that is no number, and where another thread of this process goes on computing
/// for a second.
Result<JobResult> run_job(const JobOptions& options, const RankMain& main);

/// The place of a process among those that `stretto run`, torchrun, mpirun or srun has started together.
struct LaunchedRank {
  int rank = 0;              ///< 0 … ranks − 1
  int ranks = 1;             ///< of the job
  int local_ranks = 1;       ///< of these, on this host; `ranks` where the environment does not say
  const char* starter = "";  ///< "stretto run", "torchrun", "mpirun", "mpiexec", "srun"
};
/// By this process's environment; nothing where it stands alone. Where torchrun was started inside a job of mpirun or
/// srun, torchrun's place counts; a starter's variables that speak of one rank do not. Throws UsageError for variables
/// that are no numbers or do not fit together.
std::optional<LaunchedRank> launched_rank();

/// True in a process that something else has started as one of several ranks.
bool launched_from_outside();
/// True in one that is, or becomes, a member of a job whose members change, as the environment says.
bool launched_as_member();

/// Runs `main` as the rank this process is, of a job whose ranks meet (join_job()). On rank 0 the reports of all ranks
/// are there; elsewhere they are empty. A rank that does not return 0 ends this process, and with it the job: no
/// return. Errc::unavailable where ranks on several hosts have nowhere to meet, where they have not all what is to move
/// messages, or where this process was started by something else; errors as join_job(). Of
/// the options `prepare` counts, where ranks share memory `extra_bytes`, and where they are on several hosts `liveness`
/// and `between`.
Result<JobResult> run_as_launched(const RankMain& main, const JobOptions& options = {});

/// Runs `main` in all ranks of a job, however this program was started: run_as_launched() as one of as many ranks as
/// `stretto run`, torchrun, mpirun or srun has started, run_job() where the program stands alone.
Result<JobResult> launch(const JobOptions& options, const RankMain& main);

class Bulletin;
struct MemberPlace;

/// As whom a process joins a job.
struct JoinOptions {
  int rank = 0;   ///< 0 … ranks − 1
  int ranks = 1;  ///< of the job
  /// Names the job: the same text on all its ranks, and not that of another job of this user on this host.
  std::string job;
  /// Where ranks are on several hosts: what their launcher offers for a meeting. Null: all are on this host.
  std::shared_ptr<Bulletin> bulletin = {};
  /// Where members of the job change: as whom this process comes to it, when its context's world is first asked for.
  /// Then `rank` is the number by which the job knows it, and there are `ranks` at a time at most. Null: they do not.
  std::shared_ptr<const MemberPlace> member = {};
  /// Of ranks on several hosts, alike on all: a host of which nothing comes for so long is lost, 1 s at least. Less
  /// time hears sooner of a host without power, more outlives a longer break of a link. None: as STRETTO_LIVENESS says,
  /// or 10 s.
  std::optional<Duration> liveness = {};
  /// Of the same, alike on all: what moves messages between hosts: "tcp", "ucx", or "auto", which is ucx where every
  /// host has an active port for RDMA and the same UCX, else tcp; "mpi", where the process manager of an MPI has
  /// started the ranks. Empty: as STRETTO_BETWEEN says, or tcp.
  std::string between = {};
  /// With `member`: what has to be the same for all members, by name. The master refuses one that differs.
  std::map<std::string, std::string> terms = {};
  std::uint64_t extra_bytes = 0;                ///< as JobOptions::extra_bytes; what rank 0 says counts
  Duration timeout = std::chrono::seconds(60);  ///< for the last rank to come
  /// Called about ten times a second while join_job() or JoinedRank::leave() waits, on its thread: the place to look
  /// for signals. What it throws passes through them; from join_job() as if this rank had not come.
  std::function<void()> look = {};
};

/// As whom this process joins the other ranks that `stretto run`, torchrun, mpirun or srun has started with it: rank,
/// ranks and job, found as launched_rank() finds its place. A job of one rank where the process stands alone.
/// A member under `stretto run --ranks MIN:MAX`. STRETTO_JOB is part of the job's name. Ranks on several hosts meet by
/// STRETTO_MEETING, or by what their starter keeps: torchrun's store, PMIx of mpirun and srun, PMI-1 of mpiexec; those
/// of srun without PMIx on the first node. Throws UsageError as launched_rank(), and Failure (Errc::unavailable) where
/// there is none of these.
JoinOptions join_options_by_environment();
/// The meeting at rank 0's address that STRETTO_MEETING gives by hand, "host:port"; null where it gives none.
std::shared_ptr<Bulletin> given_meeting(int rank, int ranks);

class PartOfJob;

/// A rank in a process that was not forked for it: from join_job() until leave(). One in a process. A process that it
/// forks is no part of the job: there the destructor and leave() do nothing, and context() throws UsageError.
class JoinedRank {
 public:
  JoinedRank(JoinedRank&& other) noexcept;  ///< `other` is no rank any more
  JoinedRank& operator=(JoinedRank&&) = delete;
  /// Without leave() the other ranks hear that this one is lost.
  ~JoinedRank();

  RankContext& context();  ///< until leave()
  /// Says goodbye to the others. Rank 0 waits for the ends of all, for at most `limit`, and returns what they have
  /// reported, with an exit status of 1 for a rank that has not said goodbye; elsewhere the reports are empty. Throws
  /// UsageError the second time.
  JobResult leave(Duration limit = std::chrono::minutes(5));

 private:
  friend Result<JoinedRank> join_job(const JoinOptions& options);
  friend class RunOfJoinedRank;
  JoinedRank(std::unique_ptr<PartOfJob> part, int rank);
  bool forked() const;
  std::unique_ptr<PartOfJob> part_;
  int rank_;
  pid_t process_;
  bool left_ = false;
};

/// Meets the other ranks of a job, which something else has started, each in a process of its own: at a Unix socket
/// without a file, or with one in the folder that the environment variable STRETTO_RENDEZVOUS_DIR names, where
/// containers of one host have networks of their own. No rank returns before all have come. What keeps the ranks apart
/// is told on all that have come: Errc::timeout names those that do not come, Errc::lost_peer one that ends meanwhile,
/// Errc::bad_input two processes with the same rank, or one with another version or number of ranks. Only processes of
/// the same user are let in. Throws UsageError for a rank outside of the job, and for a `liveness` or `between` that is
/// none.
Result<JoinedRank> join_job(const JoinOptions& options);

}  // namespace stretto
