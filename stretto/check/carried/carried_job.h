#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stretto/check/carried/carried_member.h"
#include "stretto/check/carried/carried_oracle.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/check/partial/scenario.h"

namespace stretto {

/// A job whose members change, on a virtual clock: worlds one after the other, each a simulated cluster of its own.
///
/// In each world, at a moment that is drawn, a change begins: members die, at once or later, or are taken for lost and
/// live on; the engine of every other one is frozen, each at a moment of its own. When all have been, the largest
/// number of rounds that one of them holds decides, and when their applications have come to a call they enter the next
/// world, seldom with joiners. There each begins when it likes, and the next change may come before all have.
class CarriedJob {
 public:
  CarriedJob(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);
  void run();

 private:
  /// A world that is over, or the present one.
  struct World {
    Scenario scenario;
    SearchedJob job;
    std::vector<CarriedMember*> members;  // by seat
    World(Scenario drawn, JobFinding& finding)
        : scenario(std::move(drawn)), job(scenario.machines, scenario.seed, finding) {}
  };

  Duration draw_delay();
  World& world() { return *worlds_.back(); }
  /// The members of the present world that are neither lost nor taken for it.
  std::vector<CarriedMember*> live() const;
  Scenario draw_world(int ranks, Round before);
  void enter_world(const std::vector<CarriedMember*>& members, Round before);
  void begin(CarriedMember& member);
  void change();
  void lose(CarriedMember& member);
  void decide_where_possible();
  void run_world();

  const JobLimits limits_;
  JobFinding& finding_;
  Random random_;
  int ranks_ = 0;                 // at first
  int most_ = 0;                  // members that there may be in all
  int changes_ = 0;               // that are still to come
  std::uint64_t mean_steps_ = 0;  // of a member
  Policy::Kind policy_{};
  PartialOptions options_;  // those that all worlds have
  std::vector<BucketSpec> buckets_;
  std::unique_ptr<CarriedOracle> oracle_;
  std::vector<std::unique_ptr<World>> worlds_;           // until all have begun in the one after
  std::vector<std::unique_ptr<CarriedMember>> members_;  // of all times; ends before worlds_

  bool changing_ = false;
  bool decided_ = false;
  bool all_begun_ = false;
  Round before_ = 0;  // decided: rounds that count
};

}  // namespace stretto
