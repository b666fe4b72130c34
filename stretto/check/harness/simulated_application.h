#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/check/harness/job_search.h"
#include "stretto/engine/engine.h"
#include "stretto/simulate/cluster.h"

namespace stretto {

/// The machines of a simulated job, drawn from its seed: hosts, the network between ranks, and the time that a rank
/// computes.
struct Machines {
  Over over = Over::messages;  ///< the way in which the ranks meet
  Members members{1};          ///< over boards: the hosts that they are on
  NetworkOptions network;
  struct SlowLink {
    int src, dst;
    double factor;
  };
  std::vector<SlowLink> slow_links;  ///< some between ranks; between hosts all of a pair, or of a host
  Duration compute{1000};            ///< mean computing time of a batch
  std::vector<double> slowness;      ///< by rank: multiplies its computing time
  double spread = 0;                 ///< computing times are uniform in mean · [1 − spread, 1 + spread]
  double stall = 0;                  ///< probability that a batch takes ten to fifty times as long
  double stop = 0;                   ///< probability that, in a batch, engine and application stand still for a while
  double asleep = 0.005;             ///< of an engine that takes a step an event: probability that it is late with one
  Duration latest{100'000};          ///< so late at most is a thread that is woken

  int ranks() const { return members.size(); }
  /// The ranks of a host share its memory.
  bool shares_memory() const { return over != Over::messages; }
};

/// 2 to 8, seldom 16 or 33.
int draw_ranks(Random& random);

/// Machines of ranks that meet by messages.
Machines draw_machines(Random& random, int ranks);

/// Draws the way in which the ranks meet, where it is not given, and their hosts. Returns how many meet at a board, as
/// PartialOptions::seats.
int draw_over(Random& random, std::optional<Over> over, Machines& machines);

/// "", ", on a board", ", on boards of 2 ranks on 2 hosts: 0+2 1+3".
std::string text_of_boards(const Machines& machines, int seats);

/// The job of one seed while it runs: its cluster, and the finding of the search. Single-threaded.
class SearchedJob {
 public:
  /// `machines` and `finding` must outlive it. `stepwise`: an engine takes one step an event, as a thread of its own
  /// that may be late, so that the steps of all ranks fall between one another.
  SearchedJob(const Machines& machines, std::uint64_t seed, JobFinding& finding, bool stepwise);
  SearchedJob(const Machines& machines, std::uint64_t seed, JobFinding& finding)
      : SearchedJob(machines, seed, finding, machines.shares_memory()) {}

  struct Hooks {
    std::function<void()> transition = [] {};  ///< after every event
    /// Nothing moves but applications: no message is under way, and no engine that is stepwise has a step to take.
    std::function<void()> quiet = [] {};
    std::uint64_t most_events = 5'000'000;  ///< a run that takes longer goes round in circles
  };
  /// Lets events happen until none is left, or there is a violation.
  void run(const Hooks& hooks);
  void run() { run({}); }

  const Machines& machines;
  const std::uint64_t seed;
  JobFinding& finding;
  const bool stepwise;
  int stepping = 0;  ///< stepwise: engines whose next step is scheduled
  SimulatedCluster cluster;
};

/// The thread of one rank of a searched job: the real engine, and an application that computes and looks at its
/// collectives. All that it does are events of the cluster.
class SimulatedApplication {
 public:
  struct Hooks {
    std::function<bool()> waits;            ///< whether the application waits for a collective
    std::function<void()> look;             ///< where it waits: it looks at it, and goes on where it can
    std::function<void()> stepped = [] {};  ///< after every step of the engine
  };

  SimulatedApplication(SearchedJob& job, int rank, Hooks hooks);

  Engine& engine() { return engine_; }
  Random& random() { return random_; }

  /// Computes a batch, and then does `then`.
  void compute(std::function<void()> then);
  /// Does `then` after less than so many nanoseconds.
  void soon(std::function<void()> then, std::uint64_t nanoseconds = 300);
  /// The application has come to where it waits, or has told the engine something: lets both do all they can, or where
  /// engines are stepwise the application alone.
  void poll();
  /// Without a look of the application: after it has told the engine something while it does not wait.
  void step();
  /// The application must be asked again even where nothing comes.
  void look_again();
  /// `with_host`: at the same moment all ranks of its host are gone. The others hear of that later.
  void crash(bool with_host = false);

 private:
  void wake();
  void look();
  bool step_all();
  void schedule_step();
  void note_rings();
  void step_once();

  SearchedJob& job_;
  const int rank_;
  const Hooks hooks_;
  Random random_;
  Engine engine_;
  bool stepping_ = false;  // stepwise: the next step is scheduled
  bool looking_ = false;   // there was more to do after the last one
  bool rung_ = false;      // since this look began
  std::uint32_t rings_seen_ = 0;
};

}  // namespace stretto
