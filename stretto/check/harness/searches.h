#pragma once

#include <cstddef>
#include <cstdint>

#include "stretto/check/harness/job_search.h"

namespace stretto {

struct ChangedCoordinator;  // check/ordering/ordering_job.h

// The searches that check/job_searches.cc lists, each in the folder of its name.

/// Runs the job of `seed` through the real engine: a partial allreduce under any policy, by messages, on a board or
/// between several, over slow links and ranks, with crashes (check/partial/scenario.h). Oracle judges it.
void run_partial_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

/// Runs the job of `seed` through the real engine: a partial allreduce of two to five buckets that have rounds of their
/// own, one or two a round, under any policy, by messages or on a board, which is one also for Over::boards; deposits
/// whole or bucket by bucket, ranks of different speeds, dropped batches, crashes. BucketOracle judges it.
void run_bucket_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

inline constexpr Situation kCarriedReaches[] = {{"changes of members"},
                                                {"ranks lost"},
                                                {"ranks taken for lost"},
                                                {"joiners"},
                                                {"changes with a rank behind by one or more"},
                                                {"changes with a rank behind by two or more"},
                                                {"changes with deposits carried"},
                                                {"changes before all have begun"},
                                                {"changes after which fewer rounds count than before"},
                                                {"decisions made anew"},
                                                {"worlds on a board"},
                                                {"worlds on several boards"},
                                                {"full rounds"}};

/// Runs the job of `seed` through the real engine: partial allreduces of one world after the other, from each of which
/// members are lost, at any moment, while the engines of the others are frozen, each at its own; what is pending is
/// carried to the next (check/carried/carried_job.h). CarriedOracle judges it.
void run_carried_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

inline constexpr Situation kGroupReaches[] = {{"stale sums"},
                                              {"sums passed over"},
                                              {"jumps"},
                                              {"unequal groups"},
                                              {"quorums"},
                                              {"full rounds"},
                                              {"own sums"},
                                              {"rounds on a board"},
                                              {"rounds on several boards"},
                                              {"steps put on a mean"},
                                              {"rounds on several hosts"},
                                              {"jobs that lose a host"}};

/// Runs the job of `seed` on the real engine and the real GroupAllreduce: ranks that publish models in a prime field,
/// some of them slow, over links some of which are slow or on a board, with groups of any size. Checks G1 to G11
/// (docs/groups.md). `over`: how they meet; nothing: drawn.
void run_group_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

inline constexpr Situation kDilocoReaches[] = {{"full rounds", 0.02},
                                               {"partial rounds", 0.02},
                                               {"stale pseudo-gradients", 0.02},
                                               {"exchanges without a round", 0.02},
                                               {"weights kept that are not the outer model", 0.02}};

/// Runs the job of `seed` through the real engine, the real PartialAllreduce by messages and the real OuterPhases,
/// under the policies, speeds and faults of a Scenario: DiLoCo with an outer step of 1 and plain averaging. Models are
/// vectors of integers modulo a prime, in which one divides by the number of ranks exactly, and steps are drawn, so
/// that no two mistakes make up for each other.
///
/// Checked: after each exchange and at the end of each phase, that the weights are those taken last and the rank's own
/// steps since; whenever a round is handed over, that all ranks have the same outer model after it; after each full
/// round and at the end, that the outer model is the initial one moved by the mean of all steps so far, each once; at
/// the end, that this is every rank's weights, and that every rank has come there.
void run_diloco_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

inline constexpr Situation kOrderingReaches[] = {{"tensors that a rank did not bring to their buffer", 0.001},
                                                 {"jobs that fail as they must", 0.001},
                                                 {"times at which nothing moved but time", 0.001},
                                                 {"lines about a changed graph or a stall", 0.001},
                                                 {"buffers thrown away", 0.001},
                                                 {"steps by a plan", 0.001},
                                                 {"plans of several graphs", 0.001},
                                                 {"questions of ranks that wait for long", 0.001}};
/// The first of them come about without plans, too, and as often.
inline constexpr std::size_t kReachedWithoutPlans = 3;

/// Runs the job of `seed`: the orderers of all ranks and process sets, with control collectives and buffers that
/// complete in any admissible order, and applications that submit tensors in any order that their graph allows; graphs
/// and sizes change, tensors are left out, ranks have fewer steps, caches are small. After each transition it checks
/// the invariants of docs/lab/ordering.md: that all issue the same buffers, that each tensor is reduced once, with what
/// every rank has brought, that caches are equal and control collectives matched; and in the end that no rank waits,
/// but where its program must.
void run_ordering_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);
/// The same of a coordinator that is changed.
void run_changed_coordinator(std::uint64_t seed, const JobLimits& limits, JobFinding& finding,
                             const ChangedCoordinator& changed);

inline constexpr Situation kLivenessReaches[] = {{"hosts that die"},
                                                 {"ranks that end"},
                                                 {"hosts whose ranks all end"},
                                                 {"links cut"},
                                                 {"links cut one way"},
                                                 {"links mended"},
                                                 {"hosts that stand still"},
                                                 {"speakers and others that stand still beside a deputy"},
                                                 {"connections that end"},
                                                 {"hosts that leave"},
                                                 {"faults behind others"}};

/// Runs the job of `seed`: the rules by which hosts find out who is lost, on hosts of which some fail
/// (check/liveness/failing_hosts.h, which says what is checked). No engine and no round runs: what counts as one is a
/// tenth of the limit, in which each host sends a beat.
void run_liveness_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

inline constexpr Situation kMembersReaches[] = {{"views"},
                                                {"changes"},
                                                {"views with a member behind", 0.05, "changes"},
                                                {"views with a member behind by two rounds or more"},
                                                {"views to which deposits were carried", 0.2, "changes"},
                                                {"holders lost before all had begun"},
                                                {"givers lost"},
                                                {"jobs begun anew"},
                                                {"jobs begun anew by spares alone"},
                                                {"masters lost while they read"},
                                                {"masters lost while the register is away"},
                                                {"masters lost while they watch"},
                                                {"masters lost while members stop"},
                                                {"masters lost while they write"},
                                                {"batches that end their members"},
                                                {"batches dropped"},
                                                {"two masters"},
                                                {"members suspected"},
                                                {"excluded members with rounds of their own"},
                                                {"members that left"},
                                                {"leavers held back"},
                                                {"answers of the register lost"},
                                                {"jobs with full rounds"}};

inline constexpr Situation kAveragedReaches[] = {{"views"},
                                                 {"changes"},
                                                 {"views with a member behind", 0.05, "changes"},
                                                 {"models learned by those that come"},
                                                 {"models taken over by those behind"},
                                                 {"averages after several own steps"},
                                                 {"batches that leavers took along"},
                                                 {"holders lost before all had begun"},
                                                 {"givers lost"},
                                                 {"jobs begun anew"},
                                                 {"masters lost while members stop"},
                                                 {"masters lost while they write"},
                                                 {"two masters"},
                                                 {"members suspected"},
                                                 {"excluded members with rounds of their own"},
                                                 {"members that left"},
                                                 {"batches that end their members"},
                                                 {"batches dropped"}};

/// The same, where models are averaged and no deposits carried: each world begins with an average (rule 17 of
/// docs/protocol.md).
void run_averaged_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

/// Runs the job of `seed`: members that change, by the masters, the member's side, the register and the pool as built,
/// over rounds with numbers of batches in the place of gradients (check/members/changing_job.h, carried_rounds.h, which
/// say what is checked). What counts as a round is one that is complete for a member, or a view.
void run_members_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

inline constexpr Situation kThresholdReaches[] = {{"messages that no round needed", 0.25}};

/// Runs the job of `seed` through the real engine: rank 0 receives integers from all others into scratch memory, parts
/// of it, or given memory, and takes those that come first, k of n, with bodies that come in pieces. Checks that each
/// round holds whole vectors of that round alone, enough of them, and that nobody writes to the memory of a round that
/// has been retired.
void run_threshold_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

inline constexpr Situation kGridReaches[] = {{"rounds forced to an end"},
                                             {"contributions and means too late"},
                                             {"means that came to complete rounds"},
                                             {"nodes that brought nothing"},
                                             {"means of fewer than all"},
                                             {"rounds complete with fewer means than all"},
                                             {"previous slices"},
                                             {"rounds of the paper"},
                                             {"rounds in three dimensions"},
                                             {"nodes that stand still"},
                                             {"nodes suspected"},
                                             {"nodes lost"},
                                             {"line masters lost"},
                                             {"nodes without a model at first"},
                                             {"complete rounds that nobody took"},
                                             {"changes of members"},
                                             {"nodes that entered a view when another one was there"},
                                             {"contributions that waited for a message before them"},
                                             {"lines that their nodes met in"},
                                             {"lines that stayed in a change"},
                                             {"lines that a node had left"},
                                             {"states given to nodes that came"},
                                             {"nodes that asked another one for its state"}};

/// Runs the job of `seed`: the agents and rounds of the lines of a grid of 2 to 10 nodes, seldom 16, whose models are
/// residues; slow nodes and links, nodes that stand still, are suspected or lost (check/grid/grid_node.h). GridOracle
/// judges what they do, and each line must go on when faults end; where members change LineMeetings says whether nodes
/// are where they should be. A round of it is one of a line.
void run_grid_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
