#include "stretto/membership/joined_rank.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "stretto/base/version.h"
#include "stretto/engine/driver.h"
#include "stretto/membership/changing_rank.h"
#include "stretto/membership/hosts/carrier_choice.h"
#include "stretto/membership/hosts/settings.h"
#include "stretto/membership/launch.h"
#include "stretto/membership/rank_end.h"
#include "stretto/membership/rendezvous.h"
#include "stretto/membership/shm_rank_context.h"
#include "stretto/membership/views/member_place.h"

namespace stretto {
namespace {

static_assert(kRanksThatTold < JobMemory::kNumCounters);

constexpr std::chrono::milliseconds kShortestPoll{1};
constexpr std::chrono::milliseconds kLongestPoll{100};

/// View::terms of a member: the caller's, and how it reaches other hosts.
std::map<std::string, std::string> terms_of(const JoinOptions& options) {
  auto terms = options.terms;
  const std::string carrier = between_hosts({}, options.between).carrier;
  terms.emplace("between", carrier);
  if (carrier == kMpi) {
    throw UsageError(
        "between mpi in a job whose members change, but those of an MPI stay the same: expected tcp or ucx");
  }
  if (carrier == "ucx") terms.emplace("ucx", carrier_offer(carrier));
  return terms;
}

/// A rank of a job whose ranks all share memory.
class RankOfHost final : public PartOfJob {
 public:
  RankOfHost(Rendezvous meeting, const JoinOptions& options)
      : rank_(options.rank),
        look_(options.look),
        meeting_(std::move(meeting)),
        context_(std::in_place, meeting_.memory, rank_, [this](const RankMessage& message) { said_.hear(message); }) {}
  ~RankOfHost() override {
    if (left_) return;
    if (said_.complaint) memory().say_why(rank_, said_.complaint->text);
    memory().mark_lost(rank_, kFailed);
  }

  RankContext& context() override { return *context_; }
  JobResult leave(Duration limit) override;
  void tell(const RankMessage& why) override { tell_why(why, told_); }

 private:
  JobMemory& memory() { return meeting_.memory; }
  /// On rank 0: waits until no other rank has any more to say. A rank that has left has not, though a process that it
  /// has forked may still hold its pipe open.
  void listen(Duration limit);

  const int rank_;
  Look look_;
  Rendezvous meeting_;
  MemoryCounter told_{meeting_.memory.counter(kRanksThatTold)};
  std::optional<ShmRankContext> context_;
  bool left_ = false;
};

void RankOfHost::listen(Duration limit) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  std::vector<pollfd> pipes;
  for (TimePoint now = begin; now - begin < limit; now = clock.now()) {
    pipes.clear();
    for (std::size_t i = 0; i < meeting_.from_others.size(); ++i) {
      RankPipe& pipe = meeting_.from_others[i];
      const bool ended = memory().fate(static_cast<int>(i) + 1).kind != RankFate::Kind::running;
      pipe.drain();
      if (ended) pipe.close();
      if (pipe.fd() >= 0) pipes.push_back({pipe.fd(), POLLIN, 0});
    }
    if (pipes.empty()) return;
    const Duration longest = std::min({limit - (now - begin), look_.due() - now, Duration(kLongestPoll)});
    ::poll(pipes.data(), pipes.size(), static_cast<int>(std::max<Duration>(longest, kShortestPoll) / kShortestPoll));
    look_.at(clock.now());
  }
}

JobResult RankOfHost::leave(Duration limit) {
  const int ranks = memory().ranks();
  JobResult result;
  result.exit_status.assign(static_cast<std::size_t>(ranks), 0);
  result.reports.resize(static_cast<std::size_t>(ranks));
  context_.reset();  // its helper thread ends
  if (rank_ != 0) write_message(meeting_.to_first.get(), RankMessage::Kind::report, said_.report);
  memory().leave(rank_);
  left_ = true;
  meeting_.to_first.close();
  if (rank_ != 0) return result;
  listen(limit);
  result.reports[0] = std::move(said_.report);
  for (int rank = 1; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (auto message = meeting_.from_others[at - 1].next()) result.reports[at] = std::move(message->text);
    if (memory().fate(rank).kind != RankFate::Kind::left) result.exit_status[at] = 1;
  }
  return result;
}

/// A member of a job whose members change.
class MemberOfJob final : public PartOfJob {
 public:
  explicit MemberOfJob(const JoinOptions& options)
      : place_(options.member),
        context_(make_changing_rank({.host = options.member->host,
                                     .port = options.member->port,
                                     .etcd = options.member->etcd,
                                     .token = options.member->token,
                                     .number = options.member->number,
                                     .place = options.member->place,
                                     .most = options.member->most,
                                     .patience = options.member->patience,
                                     .terms = terms_of(options),
                                     .say = [this](const RankMessage& message) { said_.hear(message); },
                                     .look = options.look})) {}

  RankContext& context() override { return *context_; }
  JobResult leave(Duration) override {
    context_.reset();
    return {.exit_status = {0}, .reports = {said_.report}};
  }
  void tell(const RankMessage& why) override { std::cerr << text("stretto: ", why.text, "\n") << std::flush; }

 private:
  const std::shared_ptr<const MemberPlace> place_;  // which may be this process's as long as somebody has it
  std::unique_ptr<RankContext> context_;
};

}  // namespace

std::unique_ptr<PartOfJob> join_as_member(const JoinOptions& options) {
  return std::make_unique<MemberOfJob>(options);
}

JoinedRank::JoinedRank(std::unique_ptr<PartOfJob> part, int rank)
    : part_(std::move(part)), rank_(rank), process_(getpid()) {}
JoinedRank::JoinedRank(JoinedRank&&) noexcept = default;
JoinedRank::~JoinedRank() {
  // The job's memory is not mapped in such a process, and the threads that the destructor joins are not there.
  if (forked()) (void)part_.release();
}
bool JoinedRank::forked() const {
  return getpid() != process_;
}
RankContext& JoinedRank::context() {
  require_process(process_, rank_);
  return part_->context();
}
JobResult JoinedRank::leave(Duration limit) {
  if (forked()) return {};
  if (std::exchange(left_, true)) throw UsageError(text("rank ", rank_, " leaves its job a second time"));
  return part_->leave(limit);
}

Result<std::unique_ptr<PartOfJob>> join_on_one_host(const JoinOptions& options) {
  const char* folder = std::getenv("STRETTO_RENDEZVOUS_DIR");
  auto meeting = meet({.rank = options.rank,
                       .ranks = options.ranks,
                       .job = options.job,
                       .version = text("stretto ", stretto_version()),
                       .folder = folder != nullptr ? folder : "",
                       .extra_bytes = options.extra_bytes,
                       .timeout = options.timeout,
                       .look = options.look});
  if (!meeting) return meeting.error();
  return std::unique_ptr<PartOfJob>(std::make_unique<RankOfHost>(std::move(*meeting), options));
}

Result<JoinedRank> join_job(const JoinOptions& options) {
  (void)between_hosts(options.liveness, options.between);  // refused on one host, too
  if (options.member) return JoinedRank(join_as_member(options), options.rank);
  auto part = options.bulletin ? join_across_hosts(options) : join_on_one_host(options);
  if (!part) return part.error();
  return JoinedRank(std::move(*part), options.rank);
}

/// What run_joined() has to know of its rank.
class RunOfJoinedRank {
 public:
  static PartOfJob& of(JoinedRank& rank) { return *rank.part_; }
};

Result<JobResult> run_joined(const RankMain& main, const JobOptions& options) {
  JoinOptions join;
  try {
    join = join_options_by_environment();
  } catch (const Failure& failure) {
    return failure.error();
  }
  join.extra_bytes = options.extra_bytes;
  join.liveness = options.liveness;
  join.between = options.between;
  join.terms = options.terms;
  auto joined = join_job(join);
  if (!joined) return joined.error();
  int status = 1;
  std::optional<RankMessage> why;
  try {
    if (options.prepare) options.prepare(joined->context());
    status = process_status(main(joined->context()));
    why = RunOfJoinedRank::of(*joined).complaint();
  } catch (const Left&) {
    status = 0;
  } catch (...) {
    why = message_of_exception(join.rank);
  }
  if (status == 0) return joined->leave(Duration::max());  // torchrun knows how long
  if (why) RunOfJoinedRank::of(*joined).tell(*why);
  std::cout.flush();
  std::fflush(nullptr);
  _exit(status);  // the others notice
}

}  // namespace stretto
