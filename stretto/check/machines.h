#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/check/job_search.h"
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
  std::vector<SlowLink> slow_links;
  Duration compute{1000};        ///< mean computing time of a batch
  std::vector<double> slowness;  ///< by rank: multiplies its computing time
  double spread = 0;             ///< computing times are uniform in mean · [1 − spread, 1 + spread]
  double stall = 0;              ///< probability that a batch takes ten to fifty times as long
  double stop = 0;               ///< probability that, in a batch, engine and application stand still for a while
  double asleep = 0.005;         ///< of an engine that takes a step an event: probability that it is late with one
  Duration latest{100'000};      ///< so late at most is a thread that is woken

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

}  // namespace stretto
