#include "stretto/check/job_searches.h"

#include "stretto/check/harness/searches.h"
#include "stretto/check/partial/bucket_oracle.h"
#include "stretto/check/partial/oracle.h"

namespace stretto {
namespace {

constexpr JobSearch kSearches[] = {
    {.name = "partial",
     .description = "the partial allreduce",
     .reaches = kPartialReaches,
     .run = run_partial_job,
     .takes_over = true,
     .takes_policy = true},
    {.name = "carried",
     .description = "partial allreduces whose members change, and what is carried from world to world",
     .reaches = kCarriedReaches,
     .run = run_carried_job,
     .takes_over = true,
     .takes_policy = true},
    {.name = "group",
     .description = "models averaged in groups of ranks, others in each round",
     .reaches = kGroupReaches,
     .run = run_group_job,
     .takes_over = true},
    {.name = "buckets",
     .description = "partial collectives whose buckets have rounds of their own",
     .reaches = kBucketReaches,
     .run = run_bucket_job,
     .takes_over = true},
    {"diloco", "steps of each rank's own, whose sum one round takes and applies to all", kDilocoReaches,
     run_diloco_job},
    {"threshold", "schedules that go on when k of n messages have come", kThresholdReaches, run_threshold_job, 2, 8},
    {"ordering", "tensors that ranks hand over in any order and reduce in one: coordinator and topo", kOrderingReaches,
     run_ordering_job, 2, 5},
    {"liveness", "who is lost, as the hosts of a job tell each other", kLivenessReaches, run_liveness_job},
    {"members", "members that come, leave and are lost, and the masters that decide who is there", kMembersReaches,
     run_members_job},
    {"averaged", "members that change where models are averaged, and the average with which each world begins",
     kAveragedReaches, run_averaged_job},
    {"grid", "models averaged in the lines of an elastic grid", kGridReaches, run_grid_job, 2, 33},
};

}  // namespace

std::span<const JobSearch> job_searches() {
  return kSearches;
}

}  // namespace stretto
