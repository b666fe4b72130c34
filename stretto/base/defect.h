#pragma once

#include <span>
#include <string_view>

namespace stretto {

/// Bugs planted on purpose: each breaks one rule, and the page of the rule names it (docs/protocol_search.md,
/// docs/boards.md, docs/groups.md and others). Compiled in with STRETTO_DEFECTS only, and switched on one at a time by
/// `stretto check --defect NAME`: the search must find each.
enum class Defect {
  none,
  stop_without_drain,          ///< a rank without further batches just stops
  full_beside_the_rounds,      ///< a synchronization is a collective of its own beside the rounds
  join_before_taking_results,  ///< a late rank arrives at a full round before it has taken its results
  no_cap,                      ///< a late rank's debt of rounds has no bound
  lag_off_by_one,              ///< joins while s − h ≤ W
  take_back_deposit,           ///< takes the pending deposit back to add to it
  add_in_place,                ///< adds to the pending deposit where it lies
  round_modulo_4,              ///< matches messages by the round modulo 4
  arrivals_without_round,      ///< the counter counts arrivals whatever their round
  apply_empty_round,           ///< moves the weights in a round to which no rank contributed
  rate_by_own_step,            ///< the learning rate follows the rank's own steps
  skip_folded_rank,            ///< forgets one rank where their number is no power of two
  arrive_activates,            ///< an ARRIVE raises the rounds known to be activated
  no_last_round,               ///< no rank starts the round that takes the deposits pending at the end
  last_round_twice,            ///< starts another last round although the header shows everyone drained
  never_look_again,            ///< does not look again when results are handed over
  full_asks_in,                ///< a message of a full round makes ranks join it that have not come
  overwrite_full,              ///< a later result takes the place of a full one that is not taken (delivery latest)
  reuse_before_retired,        ///< gives contributions back when the round completes, not when its sends have left
  retire_in_mid_body,          ///< ends a round while a message it did not need is being received into its memory
  late_not_decoded,            ///< the codec does not see a body that comes too late for its round
  seal_skips_empty,            ///< board: reads seats that have brought nothing instead of sealing them
  held_without_second_look,    ///< board: says that a round is held, or that it sleeps, and does not look once more
  sum_unpublished,             ///< board: sums a set ahead that has not been deposited
  reuse_before_complete,       ///< board: fills a set again while the round that takes it is being summed
  publish_before_boards,       ///< boards: a round is complete when this one has summed its own
  one_sum_for_all_rounds,      ///< boards: sums a round where the sum of the one before is still leaving
  leader_speaks_for_itself,    ///< boards: tells the counter of the leader's arrivals alone
  sum_without_ring,            ///< boards: does not ring the leader when the last piece is summed
  boards_across_hosts,         ///< boards: ranks meet at one that do not share its memory
  board_ranks_in_a_row,        ///< boards: takes the ranks of a board to follow one another
  hand_over_without_ring,      ///< board: wakes no rank when the results are handed over that a round was held for
  anybody_starts_majority,     ///< board: the first rank that comes starts a majority round, not the drawn one
  drained_starts_solo,         ///< board: a drained rank starts solo rounds that no rank has arrived at
  tree_of_contributors,        ///< board: the fixed tree is that of the ranks that have brought something
  bucket_own_policy,           ///< buckets: what follows a round of a bucket is said by its own header
  bucket_before_first,         ///< board: a round of a bucket starts before that of the first has
  bucket_first_decides,        ///< buckets: a round is complete when that of the first bucket is

  // From one world to the next.
  carried_steps_after_report,  ///< completes rounds after it has reported how many are complete
  carried_takes_uncounted,     ///< takes a result that a board shows, and that the report did not count
  carried_nothing,             ///< carries what is pending, and not what is in rounds that no survivor has completed
  carried_ring_of_w,           ///< keeps W results where a round in flight is summed where result r - W lies
  carried_reuse_summed,        ///< board: fills a set again that a round has summed which is not complete
  carried_least_decides,       ///< the new world begins with the fewest rounds that a survivor holds
  carried_jumps,               ///< a rank that is behind goes on without the results it lacks
  carried_forgets,             ///< a rank forgets its deposits when the next world is decided, not when it has begun

  // Groups of ranks that average with each other.
  group_taken,                 ///< a round takes the model that should stand
  group_no_initial,            ///< ranks join that have published nothing
  group_in_place,              ///< publishes in the memory of the model that stands
  group_reuse_before_sent,     ///< gives up the model of a round when it is complete, not when its sends have left
  group_fresh_by_arrival,      ///< takes a sum for fresh because the rank had arrived
  group_always_average,        ///< takes every sum for fresh
  group_always_stale,          ///< takes every sum for stale
  group_used_again,            ///< uses a sum again
  group_one_sum,               ///< has memory for one sum
  group_board_ranks_in_a_row,  ///< boards: takes the ranks of a board to follow one another
  group_own_replaced,          ///< a newer sum replaces one whose iteration is yet to come
  group_of_own_iteration,      ///< sends its model to the group of its own iteration
  group_joins_newest,          ///< joins the newest round that has started, not the next
  group_full_by_own_steps,     ///< takes every τ-th step of its own for a full round
  group_early_dropped,         ///< drops what comes for a round before it is joined
  group_old_activation,        ///< a message of a round that is over starts the open one
  group_activates_group,       ///< tells only its group that a round has started
  group_activates_one,         ///< a message of a later round does not start those before it, and is not passed on
  group_full_asks_in,          ///< a message of a full round makes ranks join it that have not come
  group_drained_counts,        ///< the engine of a drained rank joins full rounds by itself
  group_full_replaced,         ///< joins the next round before the result of a full one is taken
  group_stops,                 ///< a rank without further batches just stops
  group_nobody_finishes,       ///< no rank starts the rounds up to the full one at the end
  group_ends_by_group,         ///< ends with a group whose members have all drained
  group_old_stands,            ///< moves: the model that a round has summed stands on, and not its mean
  group_beneath_a_sum,         ///< moves: publishes on top of a model while a round sums that
  group_moved_twice,           ///< moves: puts a step twice on what a round has moved
  group_late_takes_sum,        ///< moves: a late rank takes the mean of its group, too, in the place of its own step
  group_board_no_pin,          ///< board: reads models that it has not pinned
  group_board_no_second_look,  ///< board: does not look once more whether the model it has pinned still stands
  group_board_reuse_pinned,    ///< board: writes a model where one is still read
  group_board_store_summer,    ///< board: begins a sum by a plain store, not by a swap
  group_board_one_result,      ///< board: has memory for one result, whoever still reads it
  group_leader_arrives,        ///< several boards: a board joins a full round when its leader alone has come

  // DiLoCo: phases of own steps, and an outer model.
  anchor_is_newest_outer_model,  ///< measures a phase from the newest outer model, not from its beginning
  weights_without_anchor,        ///< the weights take the outer model, the anchor stays
  anchor_without_weights,        ///< the anchor takes the outer model, the weights stay
  keep_weights_at_the_end,       ///< a rank ends with its own weights
  drop_late_mass,                ///< neighbours: throws a message away that comes after its round
  mailbox_of_one,                ///< neighbours: keeps one message of each sender, the newest
  no_flush_at_end,               ///< neighbours: ends while messages of the last rounds are on their way
  weight_not_sent,               ///< push-sum: the weight does not travel with the mass
  newest_of_a_sender,            ///< neighbours: takes what a sender has sent for this round, whatever its round
  stop_with_own_batches,         ///< neighbours: a rank without further batches makes no further rounds
  // Models that are exchanged in pairs, or with a center.
  no_roles,              ///< pairs: every rank asks, and answers while it does not ask
  overwritten_answer,    ///< pairs: an answer makes the model what it would have become at once
  averaging_not_atomic,  ///< pairs: a model is read, and replaced by the average later
  partner_stops,         ///< pairs: a rank answers no more when its own batches have ended
  overwritten_elastic,   ///< center: overwritten_answer, in elastic averaging
  // Parameter server.
  no_done,                        ///< server: a rank without further batches just waits for the final value
  count_done_clocks,              ///< server: ssp keeps the clocks of ranks that are done in the minimum
  get_without_version,            ///< server: GET is answered with whatever version is there
  shards_decide_alone,            ///< server: each shard takes the k gradients that come to it first
  pass_in_silence,                ///< server: a rank that drops its batch tells the servers nothing
  count_late_pushes,              ///< server: k-sync takes gradients that were computed on an older version
  keep_k,                         ///< server: k-sync waits for k gradients where fewer ranks can still push
  round_without_acknowledgement,  ///< server: a phase ends when all ranks have said so, whatever is not answered
  push_before_round_over,         ///< server: takes gradients of a phase that its own rank has not begun
  // One order for all gradients (docs/lab/ordering.md).
  ids_by_arrival,             ///< topo: numbers tensors as they come, not by the graph
  fusion_across_path,         ///< topo: fuses a tensor with one that it waits for
  graph_of_buffers_ignored,   ///< topo: sees ancestors in the own process set alone
  last_buffer_before_end,     ///< topo: issues the last buffer when it is full, before the step has ended
  no_end_mark,                ///< topo: the last buffer ends the step, although something in the step waits for it
  deviator_silent,            ///< topo: a rank that leaves the plan does not say so in its headers
  void_applied,               ///< topo: hands over sums of buffers that ranks brought nothing to, since they left
  full_buffer_held,           ///< topo: a buffer waits until the one before it is complete
  no_patience,                ///< topo: a rank waits for ever for a tensor that it holds back itself
  cache_by_local_use,         ///< coordinator: evicts by what this rank has used, not by what all agreed on
  evicted_request_forgotten,  ///< coordinator: does not ask again for a tensor whose entry was evicted
  invalid_evicted_locally,    ///< coordinator: only ranks with a new description evict the old one
  stale_hit,                  ///< coordinator: takes the position of a name for that of the description
  ended_untold,               ///< coordinator: the first member does not hear that a rank has ended the step
  pending_of_nobody,          ///< coordinator: issues what no rank has submitted
  step_not_closed,            ///< coordinator: a rank with nothing pending goes on to the next step by itself
  request_again,              ///< coordinator: asks in every gather for what is pending
  words_of_today,             ///< coordinator: judges a sync by what has come since its words were formed
  drained_stops,              ///< coordinator: a drained rank stops cycling
  ended_after_queue,          ///< reads whether the step has ended after it has emptied the queue of tensors
  sets_in_different_order,    ///< serves several process sets one after the other, each rank in an order of its own
  // Who is lost, between hosts (membership/hosts/).
  connection_end_is_loss,        ///< takes a rank for ended whose connection has
  slow_host_is_lost,             ///< takes a host for lost whose beats are late
  acknowledgement_not_counted,   ///< takes a host for lost whose kernel acknowledges, while nobody there speaks
  accuses_after_standing_still,  ///< says of other hosts that they were silent while its own process stood still
  no_deputy,                     ///< nobody speaks for a host while its speaker stands still
  verdict_at_once,               ///< asks no other host whether it hears the one that is silent
  cut_not_seen,                  ///< does not say that it hears a host which another one does not hear
  second_loss_overwrites,        ///< the last word of a rank that is lost counts, and not the first
  // Members that change (membership/views/).
  members_round_after_report,   ///< a member's engine goes on after it has said what it holds
  members_least_held,           ///< a view begins with the rounds that all members hold, not those that one does
  members_unconditional,        ///< the register takes any view
  members_all_go_back,          ///< all batches that a lost member was handed are handed out again
  members_none_goes_back,       ///< a lost member's batches that no round has taken are handed out no more
  members_all_in_hand_suspect,  ///< a loss counts for batches that the lost member had handed over, too
  members_settled_at_once,      ///< the batches of rounds before a view count for good before all have begun it
  members_answer_of_view,       ///< a member that has not begun says that it holds what its view has
  members_past_freeze,          ///< a member stops for an epoch that is over
  members_before_begun,         ///< members are let in and go before all have begun the view
  members_one_is_done,          ///< the job ends when one member has taken the last round
  members_end_unasked,          ///< a member leaves after the last round without waiting for the end
  members_leaver_unwatched,     ///< a leaver is let go while another member is behind
  members_takes_leave,          ///< a member that leaves takes any view without it for its leave
  members_published_at_once,    ///< what one member holds leaves the job
  members_stop_untold,          ///< a member tells no other master that it has stopped
  members_overtaken,            ///< a master that others have overtaken does not read the register
  members_old_quorum,           ///< a world goes on with the quorum of the first one
  members_arrive_not_again,     ///< a rank that waits in a round does not come again to that of the next world
  members_drain_stands,         ///< a rank that has drained asks for no batch that comes back
  members_one_memory,           ///< the members of a world hear what is left of the one before
  members_begins_stopped,       ///< a member takes the rounds it lacks, and begins, after it has stopped again
  members_number_again,         ///< a process that the others went on without comes in again by its number
  members_end_for_all,          ///< the end of the job is also that of members that were excluded
  members_published_by_view,    ///< a round leaves the job because a view says that it is complete
  members_anew_after_loss,      ///< a job begins anew after the loss of all that had a model
  members_never_anew,           ///< a job is given up when those with a model are lost before it has begun
  // Averages of models where members change (docs/protocol.md, rule 17).
  averaged_learner_weighs,      ///< the model that a process has taken over as it came weighs in the first average
  averaged_copy_weighs,         ///< so does the one that a rank has taken over since it lacked the last average
  averaged_copies_differ,       ///< copies of models of several lost members go on, where there is nothing else
  averaged_in_flight_stays,     ///< a world begins with what is left of the average that the one before was in
  averaged_counts_untaken,      ///< a rank says that batches count which are in an average that it has not taken
  averaged_takes_when_stopped,  ///< a rank takes an average after it has said that it does not hold it
  averaged_left_come_back,      ///< others compute what one that leaves takes along in its model, too
  averaged_from_one_behind,     ///< a process that comes takes over the state of one that lacks the last average
  // Lines of a grid (docs/protocol.md, rules 20 to 28).
  grid_round_modulo,          ///< data belongs to the open round of its number modulo R
  grid_not_forced,            ///< a round that opens ends no older ones
  grid_short_mean,            ///< a round that is forced sends a mean of however few
  grid_late_added,            ///< a contribution that comes after the mean is added to it
  grid_version_twice,         ///< contributes the newest model, whether it has contributed that or not
  grid_start_alone,           ///< START alone opens a round, and data does not
  grid_stops_applying,        ///< a node without further batches applies nothing
  grid_completes_by_message,  ///< the line master counts COMPLETEs, and not those who say them
  grid_next_master_untold,    ///< another line master is not told what has been applied
  grid_suspected_untold,      ///< a line master that is suspected is told nothing more
  grid_lists_mixed,           ///< words of a line's list before are taken for those of the new one
  grid_rounds_kept,           ///< a line with another list goes on with the rounds of the one before
  grid_previous_kept,         ///< slices of the list before stand in for missing ones
  grid_old_size,              ///< thresholds are of the nodes that the line had before
  grid_newer_dropped,         ///< words for a list that a node has not entered yet are dropped
  grid_comes_untaught,        ///< a node that comes makes steps before it has the state of one that is there
  givers_first_alone,         ///< a node that comes asks one alone for that, be it gone by now
  companions_stay_broken,     ///< a line that has lost a node is not met anew
  companions_await_old,       ///< a node waits for those of a line that the newest view does not have any more
  companions_always_leave,    ///< a line is left and met anew by every view, also where its nodes stay
};

struct PlantedDefect {
  Defect which;
  std::string_view name;                    ///< as `stretto check --defect` takes it
  std::string_view collective = "partial";  ///< the search that must find it: `stretto check --collective`
};
std::span<const PlantedDefect> planted_defects();

#ifdef STRETTO_DEFECTS
/// Whether `which` is switched on. One for the process.
bool defect(Defect which);
void switch_on(Defect which);
#else
constexpr bool defect(Defect) {
  return false;
}
#endif

}  // namespace stretto
