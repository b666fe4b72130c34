#include "stretto/base/defect.h"

namespace stretto {

namespace {

constexpr PlantedDefect kPlanted[] = {
    {Defect::stop_without_drain, "stop-without-drain"},
    {Defect::full_beside_the_rounds, "full-beside-the-rounds"},
    {Defect::join_before_taking_results, "join-before-taking-results"},
    {Defect::no_cap, "no-cap"},
    {Defect::lag_off_by_one, "lag-off-by-one"},
    {Defect::take_back_deposit, "take-back-deposit"},
    {Defect::add_in_place, "add-in-place"},
    {Defect::round_modulo_4, "round-modulo-4"},
    {Defect::arrivals_without_round, "arrivals-without-round"},
    {Defect::apply_empty_round, "apply-empty-round"},
    {Defect::rate_by_own_step, "rate-by-own-step"},
    {Defect::skip_folded_rank, "skip-folded-rank"},
    {Defect::arrive_activates, "arrive-activates"},
    {Defect::no_last_round, "no-last-round"},
    {Defect::last_round_twice, "last-round-twice"},
    {Defect::never_look_again, "never-look-again"},
    {Defect::full_asks_in, "full-asks-in"},
    {Defect::overwrite_full, "overwrite-full"},
    {Defect::reuse_before_retired, "reuse-before-retired"},
    {Defect::retire_in_mid_body, "retire-in-mid-body", "threshold"},
    {Defect::seal_skips_empty, "seal-skips-empty"},
    {Defect::held_without_second_look, "held-without-second-look"},
    {Defect::sum_unpublished, "sum-unpublished"},
    {Defect::reuse_before_complete, "reuse-before-complete"},
    {Defect::publish_before_boards, "publish-before-boards"},
    {Defect::one_sum_for_all_rounds, "one-sum-for-all-rounds"},
    {Defect::leader_speaks_for_itself, "leader-speaks-for-itself"},
    {Defect::sum_without_ring, "sum-without-ring"},
    {Defect::boards_across_hosts, "boards-across-hosts"},
    {Defect::board_ranks_in_a_row, "board-ranks-in-a-row"},
    {Defect::hand_over_without_ring, "hand-over-without-ring"},
    {Defect::anybody_starts_majority, "anybody-starts-majority"},
    {Defect::drained_starts_solo, "drained-starts-solo"},
    {Defect::tree_of_contributors, "tree-of-contributors"},
    {Defect::bucket_own_policy, "bucket-own-policy", "buckets"},
    {Defect::bucket_before_first, "bucket-before-first", "buckets"},
    {Defect::bucket_first_decides, "bucket-first-decides", "buckets"},
    {Defect::group_taken, "group-taken", "group"},
    {Defect::group_no_initial, "group-no-initial", "group"},
    {Defect::group_in_place, "group-in-place", "group"},
    {Defect::group_reuse_before_sent, "group-reuse-before-sent", "group"},
    {Defect::group_fresh_by_arrival, "group-fresh-by-arrival", "group"},
    {Defect::group_always_average, "group-always-average", "group"},
    {Defect::group_always_stale, "group-always-stale", "group"},
    {Defect::group_used_again, "group-used-again", "group"},
    {Defect::group_one_sum, "group-one-sum", "group"},
    {Defect::group_board_ranks_in_a_row, "group-board-ranks-in-a-row", "group"},
    {Defect::group_own_replaced, "group-own-replaced", "group"},
    {Defect::group_of_own_iteration, "group-of-own-iteration", "group"},
    {Defect::group_joins_newest, "group-joins-newest", "group"},
    {Defect::group_full_by_own_steps, "group-full-by-own-steps", "group"},
    {Defect::group_early_dropped, "group-early-dropped", "group"},
    {Defect::group_old_activation, "group-old-activation", "group"},
    {Defect::group_activates_group, "group-activates-group", "group"},
    {Defect::group_activates_one, "group-activates-one", "group"},
    {Defect::group_full_asks_in, "group-full-asks-in", "group"},
    {Defect::group_drained_counts, "group-drained-counts", "group"},
    {Defect::group_full_replaced, "group-full-replaced", "group"},
    {Defect::group_stops, "group-stops", "group"},
    {Defect::group_nobody_finishes, "group-nobody-finishes", "group"},
    {Defect::group_ends_by_group, "group-ends-by-group", "group"},
    {Defect::group_old_stands, "group-old-stands", "group"},
    {Defect::group_beneath_a_sum, "group-beneath-a-sum", "group"},
    {Defect::group_moved_twice, "group-moved-twice", "group"},
    {Defect::group_late_takes_sum, "group-late-takes-sum", "group"},
    {Defect::group_board_no_pin, "group-board-no-pin", "group"},
    {Defect::group_board_no_second_look, "group-board-no-second-look", "group"},
    {Defect::group_board_reuse_pinned, "group-board-reuse-pinned", "group"},
    {Defect::group_board_store_summer, "group-board-store-summer", "group"},
    {Defect::group_board_one_result, "group-board-one-result", "group"},
    {Defect::group_leader_arrives, "group-leader-arrives", "group"},
    {Defect::round_modulo_4, "group-round-modulo-4", "group"},
    {Defect::anchor_is_newest_outer_model, "anchor-is-newest-outer-model", "diloco"},
    {Defect::weights_without_anchor, "weights-without-anchor", "diloco"},
    {Defect::anchor_without_weights, "anchor-without-weights", "diloco"},
    {Defect::keep_weights_at_the_end, "keep-weights-at-the-end", "diloco"},
    {Defect::drop_late_mass, "drop-late-mass", "push-sum"},
    {Defect::mailbox_of_one, "mailbox-of-one", "push-sum"},
    {Defect::no_flush_at_end, "no-flush-at-end", "push-sum"},
    {Defect::weight_not_sent, "weight-not-sent", "push-sum"},
    {Defect::newest_of_a_sender, "newest-of-a-sender", "neighbours"},
    {Defect::stop_with_own_batches, "stop-with-own-batches", "neighbours"},
    {Defect::no_roles, "no-roles", "ad-psgd"},
    {Defect::overwritten_answer, "overwritten-answer", "ad-psgd"},
    {Defect::averaging_not_atomic, "averaging-not-atomic", "ad-psgd"},
    {Defect::partner_stops, "partner-stops-when-its-batches-end", "ad-psgd"},
    {Defect::overwritten_elastic, "overwritten-elastic-answer", "easgd-async"},
    {Defect::no_done, "no-done", "server"},
    {Defect::count_done_clocks, "count-done-clocks", "server"},
    {Defect::get_without_version, "get-without-version", "server"},
    {Defect::shards_decide_alone, "shards-decide-alone", "server"},
    {Defect::pass_in_silence, "pass-in-silence", "server"},
    {Defect::count_late_pushes, "count-late-pushes", "server"},
    {Defect::keep_k, "keep-k", "server"},
    {Defect::round_without_acknowledgement, "round-without-acknowledgement", "server"},
    {Defect::push_before_round_over, "push-before-round-over", "server"},
    {Defect::ids_by_arrival, "ids-by-arrival", "ordering"},
    {Defect::fusion_across_path, "fusion-across-path", "ordering"},
    {Defect::graph_of_buffers_ignored, "graph-of-buffers-ignored", "ordering"},
    {Defect::last_buffer_before_end, "last-buffer-before-end", "ordering"},
    {Defect::no_end_mark, "no-end-mark", "ordering"},
    {Defect::deviator_silent, "deviator-silent", "ordering"},
    {Defect::void_applied, "void-applied", "ordering"},
    {Defect::full_buffer_held, "full-buffer-held", "ordering"},
    {Defect::no_patience, "no-patience", "ordering"},
    {Defect::cache_by_local_use, "cache-by-local-use", "ordering"},
    {Defect::evicted_request_forgotten, "evicted-request-forgotten", "ordering"},
    {Defect::invalid_evicted_locally, "invalid-evicted-locally", "ordering"},
    {Defect::stale_hit, "stale-hit", "ordering"},
    {Defect::ended_untold, "ended-untold", "ordering"},
    {Defect::pending_of_nobody, "pending-of-nobody", "ordering"},
    {Defect::step_not_closed, "step-not-closed", "ordering"},
    {Defect::request_again, "request-again", "ordering"},
    {Defect::words_of_today, "words-of-today", "ordering"},
    {Defect::drained_stops, "drained-stops", "ordering"},
    {Defect::ended_after_queue, "ended-after-queue", "ordering"},
    {Defect::sets_in_different_order, "sets-in-different-order", "ordering"},
};

}  // namespace

std::span<const PlantedDefect> planted_defects() {
  return kPlanted;
}

#ifdef STRETTO_DEFECTS
namespace {
Defect active = Defect::none;
}

bool defect(Defect which) {
  return active == which;
}
void switch_on(Defect which) {
  active = which;
}
#endif

}  // namespace stretto
