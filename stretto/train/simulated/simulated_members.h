#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stretto/engine/driver.h"
#include "stretto/membership/hosts/members/master_side.h"
#include "stretto/membership/job.h"
#include "stretto/membership/views/register.h"
#include "stretto/membership/views/view.h"
#include "stretto/simulate/cluster.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/simulated/churn.h"

namespace stretto {

/// How the members of a simulated job change.
struct SimulatedMembersOptions {
  int least = 1;                                      ///< JobOptions::least
  std::vector<std::uint64_t> position = {};           ///< JobOptions::position
  Churn churn = {};                                   ///< nothing: all stay
  ProgressBy progress_by = ProgressBy::thread;        ///< of all processes
  std::uint64_t seed = 1;                             ///< of what the churn draws
  std::function<void(const std::string& line)> tell;  ///< what a person should read
};

/// Ends a simulated process at once, wherever it is: thrown by what it waits for, or computes, when it is lost. It must
/// reach the process's caller.
class SimulatedLoss final : public std::exception {
 public:
  const char* what() const noexcept override { return "this simulated process is lost"; }
};

/// The job of simulated ranks whose members change: a master and its register beside the nodes, processes at the nodes,
/// one after the other at each, and worlds between them. What processes and master say to each other takes the
/// network's latency. All in one thread at a time, in the order of virtual time.
class SimulatedMembers {
 public:
  /// A process of the job, as a rank.
  using Main = std::function<int(RankContext& context)>;

  /// A place for each node of the cluster, which outlives it.
  SimulatedMembers(SimulatedCluster& cluster, SimulatedMembersOptions options);
  ~SimulatedMembers();
  SimulatedMembers(const SimulatedMembers&) = delete;
  SimulatedMembers& operator=(const SimulatedMembers&) = delete;

  /// Runs the processes of a place, one after the other, until the job is over; in the place's thread. Returns the
  /// report of the one that was there at the end; empty: none was.
  std::string run_place(VirtualRank& place, const Main& main);

 private:
  class Process;
  class Follower;
  /// The next process of a place. Nothing: it is lost, or has left.
  std::optional<std::string> run_process(VirtualRank& place, const Main& main);
  /// The members of a view that come to its world.
  struct Gathering {
    std::shared_ptr<SimulatedCluster::World> world;
    std::set<MemberNumber> come;
    std::optional<TimePoint> complete;  // then all know that all have come
  };

  /// The members of a world beside that of all, or that wait to be in one.
  using Company = std::map<MemberNumber, Follower*>;

  /// Of a word between the master and a process.
  Duration word_takes() const;
  bool is_over() const { return master_.known()->end != JobEnd::none; }
  void keep_time();
  void say(MemberNumber to, const MasterWords& words);
  void hear(const Process& process, ProcessWords words);
  Gathering& gathering(const View& view);
  void come(Gathering& gathering, const View& view, MemberNumber number);
  /// Waits for all others that come by the same name.
  void await(const std::string& name, Follower& follower);
  void await_no_more(const std::string& name, const Follower& follower);
  /// If all of them have come, and are still there, they are in a world of their own from now on.
  void meet(const std::string& name);
  /// A process that comes asks a member for its state: the two are in a world of their own from then on.
  void ask(MemberNumber giver, const Process& comer);
  /// Sees to the end of a process that has just come.
  void draw_end(MemberNumber number);
  void lose(MemberNumber number);
  int place_of(MemberNumber number) const { return places_[static_cast<std::size_t>(number)]; }

  SimulatedCluster& cluster_;
  const SimulatedMembersOptions options_;
  MemoryRegister register_;
  MasterSide master_;
  std::map<MemberNumber, Process*> processes_;     // that are there
  std::map<std::uint64_t, Gathering> gatherings_;  // by epoch, the last ones
  std::map<std::string, Company> awaiting_;        // members that wait for others, by the name of their world
  std::vector<int> places_;                        // by number, of all so far
};

}  // namespace stretto
