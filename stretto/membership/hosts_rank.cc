#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "stretto/base/machine/host_name.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/base/version.h"
#include "stretto/membership/hosts/carrier_choice.h"
#include "stretto/membership/hosts/interfaces.h"
#include "stretto/membership/hosts/liveness/news.h"
#include "stretto/membership/hosts/meeting.h"
#include "stretto/membership/hosts/settings.h"
#include "stretto/membership/hosts/speaker.h"
#include "stretto/membership/joined_rank.h"
#include "stretto/membership/rank_end.h"
#include "stretto/membership/rank_over_transport.h"
#include "stretto/membership/rendezvous.h"
#include "stretto/membership/shm_rank_context.h"
#include "stretto/transport/hosts/hosts.h"
#include "stretto/transport/hosts/mpi.h"
#include "stretto/transport/hosts/tcp.h"
#include "stretto/transport/hosts/ucx.h"

namespace stretto {
namespace {

constexpr int kDescriptors = 32;  // of a rank, at the least
constexpr std::chrono::milliseconds kBetweenLooks{1};
constexpr int kLooksAtCarrier = 100;  // before the caller's look

/// The context of a rank whose job is on several hosts.
class HostsRankContext final : public MemoryRankContext {
 public:
  HostsRankContext(JobMemory& memory, Transport& transport, Control& control, const HostNews& news,
                   std::function<void(const RankMessage&)> say)
      : MemoryRankContext(memory, std::move(say)), news_(news), world_(transport, clock_) {
    for (int i = 0; i < kNumCounters; ++i) counters_.emplace_back(control, i);
  }

  World& world() override { return world_; }
  SharedCounter& counter(int index) override { return counters_.at(static_cast<std::size_t>(index)); }
  std::span<std::byte> extra() override { return {}; }
  std::optional<Duration> clock_offset() override { return news_.clock_offset(); }

 private:
  const HostNews& news_;
  std::deque<ControlCounter> counters_;
  const SteadyClock clock_;
  World world_;
};

/// kRanksThatTold of the job, or, where rank 0 cannot be asked any more, of the ranks of this host.
class ToldCounter final : public SharedCounter {
 public:
  ToldCounter(JobMemory& memory, Control& control)
      : here_(memory.counter(kRanksThatTold)), all_(control, kRanksThatTold) {}
  std::uint64_t fetch_add(std::uint64_t amount) override {
    const std::uint64_t here = here_.fetch_add(amount);
    if (here > 0) return here;
    try {
      return all_.fetch_add(amount);
    } catch (const Failure&) {
      return here;
    }
  }

 private:
  MemoryCounter here_;
  ControlCounter all_;
};

/// The ports at which UCX listens.
std::string ports_of_ucx() {
  const PortRange ports = wanted_ports();
  return ports.first == 0 ? "" : text(ports.first, '-', ports.last);
}

/// The links of a rank to the others of its world, and the memory of its host.
struct LinksOfRank {
  LinksOfRank(std::unique_ptr<NetworkThread> of_process, Roster met, JobMemory of_host, int rank,
              const CarrierChoice& choice, const MissedPeers& missed = {})
      : network(std::move(of_process)),
        roster(std::move(met)),
        memory(std::move(of_host)),
        place(roster.members.place_of(rank)),
        bell(memory.doorbell(place), true),
        tcp(*network, *roster.door, {.from = rank, .ranks = roster.members.size()}, roster.token, roster.addresses,
            bell) {
    tcp.watch(missed);
    if (choice.engine == CarrierChoice::Engine::mpi) {
      over_tcp = start_mpi(tcp, {.rank = rank, .ranks = roster.members.size(), .missed_after = missed.limit});
    } else if (choice.engine == CarrierChoice::Engine::ucx) {
      over_tcp = start_ucx(*network, tcp,
                           {.rank = rank,
                            .ranks = roster.members.size(),
                            .token = roster.token,
                            .at = roster.addresses[static_cast<std::size_t>(rank)].address(),
                            .ports = ports_of_ucx(),
                            .missed_after = missed.limit},
                           bell);
    }
    transport.emplace(memory, rank, roster.members, carrier(), choice.why);
  }
  Carrier& carrier() { return over_tcp ? *over_tcp : tcp; }
  /// The rank says goodbye: nothing is sent any more.
  void leave() {
    carrier().leave();
    memory.leave(place);
  }

  const std::unique_ptr<NetworkThread> network;
  Roster roster;
  JobMemory memory;
  const int place;  // on its host
  const Doorbell bell;
  TcpCarrier tcp;
  std::unique_ptr<Carrier> over_tcp;  // null: `tcp` alone
  std::optional<HostsTransport> transport;
};

/// A rank in one world of a job whose members change, which is on several hosts.
class RankOfWorld final : public PartOfJob {
 public:
  RankOfWorld(std::unique_ptr<NetworkThread> network, Roster roster, JobMemory memory, int rank,
              const CarrierChoice& choice, const MissedPeers& missed)
      : links_(std::move(network), std::move(roster), std::move(memory), rank, choice, missed),
        told_(links_.memory.counter(kRanksThatTold)) {
    context_.emplace(*links_.transport, clock_);
  }
  ~RankOfWorld() override {
    if (!left_) links_.memory.mark_lost(links_.place, kFailed);
  }

  RankContext& context() override { return *context_; }
  void tell(const RankMessage& why) override { tell_why(why, told_); }
  JobResult leave(Duration) override {
    context_.reset();  // its helper thread ends
    links_.leave();
    left_ = true;
    return {};
  }

 private:
  LinksOfRank links_;
  MemoryCounter told_;
  const SteadyClock clock_;
  std::optional<RankOverTransport> context_;
  bool left_ = false;
};

/// A rank of a job on several hosts.
class RankAcrossHosts final : public PartOfJob {
 public:
  RankAcrossHosts(std::unique_ptr<NetworkThread> network, Roster roster, JobMemory memory, const JoinOptions& options,
                  const CarrierChoice& choice, Duration liveness)
      : rank_(options.rank),
        look_(options.look),
        links_(std::move(network), std::move(roster), std::move(memory), rank_, choice),
        told_(links_.memory, *links_.roster.control),
        news_(links_.memory.extra(), options.ranks),
        context_(std::in_place, links_.memory, *links_.transport, *links_.roster.control, news_,
                 [this](const RankMessage& message) { said_.hear(message); }),
        speaker_(*links_.network, links_.roster, links_.memory, news_, rank_, liveness,
                 [this](const Error& why) { lose(why); }) {}
  ~RankAcrossHosts() override {
    if (left_) return;
    if (said_.complaint) links_.memory.say_why(links_.place, said_.complaint->text);
    links_.memory.mark_lost(links_.place, kFailed);
    speaker_.leave();
  }

  RankContext& context() override { return *context_; }
  void tell(const RankMessage& why) override { tell_why(why, told_); }
  JobResult leave(Duration limit) override;

 private:
  void wait_for_carrier();
  /// A rank of another host is lost. The network's thread.
  void lose(const Error& why) {
    lost_elsewhere_ = true;
    links_.tcp.lose(why.rank, why);
    links_.roster.control->end(why);
    if (links_.roster.server) links_.roster.server->lose(why.rank);
  }

  const int rank_;
  const std::function<void()> look_;
  LinksOfRank links_;
  ToldCounter told_;
  HostNews news_;
  std::optional<HostsRankContext> context_;
  std::atomic<bool> lost_elsewhere_ = false;  // a rank of another host
  Speaker speaker_;
  bool left_ = false;
};

/// As long as nobody is lost: the others may compute for long.
void RankAcrossHosts::wait_for_carrier() {
  const auto one_here_is_lost = [&] {
    for (int place = 0; place < links_.memory.ranks(); ++place) {
      if (links_.memory.fate(place).kind == RankFate::Kind::lost) return true;
    }
    return false;
  };
  for (int looks = 1; !links_.carrier().has_ended(); ++looks) {
    if (lost_elsewhere_ || one_here_is_lost()) return;
    if (look_ && looks % kLooksAtCarrier == 0) look_();
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

JobResult RankAcrossHosts::leave(Duration limit) {
  const int ranks = links_.roster.members.size();
  JobResult result;
  result.exit_status.assign(static_cast<std::size_t>(ranks), 0);
  result.reports.resize(static_cast<std::size_t>(ranks));
  context_.reset();  // its helper thread ends
  links_.leave();
  links_.roster.control->report(said_.report);
  wait_for_carrier();
  speaker_.leave();
  links_.roster.control->leave();
  left_ = true;
  if (links_.roster.server == nullptr) return result;
  const auto goodbyes = links_.roster.server->wait_for_goodbyes(limit, look_);
  result.reports = links_.roster.server->reports();
  for (int rank = 1; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (!goodbyes[at]) result.exit_status[at] = 1;
  }
  return result;
}

/// The way of all ranks to each other, before those of a host meet.
struct Met {
  std::unique_ptr<NetworkThread> network;
  Roster roster;
  CarrierChoice choice;
};

std::string version_of_this() {
  return text("stretto ", stretto_version());
}

Result<Met> meet_all(const JoinOptions& options, const std::string& carrier, Settings settings,
                     std::function<void(const std::string&)> tell = {}, const MissedPeers& missed = {}) {
  // Rank 0 has a connection of each rank, and each process some ten to its host and to others, and as many files.
  if (const std::string why = raise_descriptors(kDescriptors + (options.rank == 0 ? options.ranks : 0)); !why.empty()) {
    return Error{Errc::unavailable, text("rank ", options.rank, " on ", host_name(), ": ", why), options.rank};
  }
  auto network = std::make_unique<NetworkThread>();
  auto roster = meet_hosts(*network, *options.bulletin,
                           {.version = version_of_this(),
                            .settings = std::move(settings),
                            .offer = carrier_offer(carrier),
                            .timeout = options.timeout,
                            .look = options.look,
                            .tell = std::move(tell),
                            .missed = missed});
  if (!roster) return roster.error();
  options.bulletin->end();
  CarrierChoice choice;
  if (roster->members.hosts() > 1) {
    auto chosen = choose_carrier(carrier, roster->offers, roster->names);
    if (!chosen) return chosen.error();
    choice = std::move(*chosen);
  }
  return Met{std::move(network), std::move(*roster), std::move(choice)};
}

/// Meets the ranks of this host in memory with so many bytes.
Result<Rendezvous> meet_here(const JoinOptions& options, const Roster& roster, std::uint64_t bytes) {
  const int host = roster.members.host_of(options.rank);
  const char* folder = std::getenv("STRETTO_RENDEZVOUS_DIR");
  return meet({.rank = roster.members.place_of(options.rank),
               .ranks = static_cast<int>(roster.members.on(host).size()),
               .job = text("host ", host, " of ", roster.name),
               .version = version_of_this(),
               .folder = folder != nullptr ? folder : "",
               .extra_bytes = bytes,
               .timeout = options.timeout,
               .look = options.look});
}

}  // namespace

Result<std::unique_ptr<PartOfJob>> join_across_hosts(const JoinOptions& options) {
  const BetweenHosts between = between_hosts(options.liveness, options.between);
  auto met = meet_all(options, between.carrier, between.settings());
  if (!met) return met.error();
  auto here = meet_here(options, met->roster, HostNews::bytes_needed(options.ranks));
  if (!here) return here.error();
  return std::unique_ptr<PartOfJob>(std::make_unique<RankAcrossHosts>(std::move(met->network), std::move(met->roster),
                                                                      std::move(here->memory), options, met->choice,
                                                                      between.liveness));
}

Result<std::unique_ptr<PartOfJob>> join_world(const JoinOptions& options, const MissedPeers& missed) {
  // The master of the job has compared what must be alike, and says who is waited for.
  auto met = meet_all(
      options, options.between, {}, [](const std::string&) {}, missed);
  if (!met) return met.error();
  met->roster.control.reset();
  met->roster.server.reset();
  if (met->roster.members.hosts() == 1) {
    JoinOptions here = options;
    here.job = text("all of ", met->roster.name);
    return join_on_one_host(here);
  }
  auto here = meet_here(options, met->roster, 0);
  if (!here) return here.error();
  return std::unique_ptr<PartOfJob>(std::make_unique<RankOfWorld>(
      std::move(met->network), std::move(met->roster), std::move(here->memory), options.rank, met->choice, missed));
}

}  // namespace stretto
