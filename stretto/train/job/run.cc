#include "stretto/train/job/run.h"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <sstream>
#include <vector>

#include "stretto/base/machine/cores.h"
#include "stretto/base/words.h"
#include "stretto/membership/job.h"
#include "stretto/membership/rank_end.h"
#include "stretto/membership/views/member_words.h"
#include "stretto/observe/round_header.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/files/rank_0_checkpoint.h"
#include "stretto/train/job/files/run_files.h"
#include "stretto/train/job/members/run_members.h"
#include "stretto/train/job/no_gradients.h"
#include "stretto/train/job/progress_page.h"
#include "stretto/train/job/rank_report.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/job/summarize.h"
#include "stretto/train/job/summary_json.h"
#include "stretto/train/job/trainer.h"
#include "stretto/train/simulated/simulated_ranks.h"

namespace stretto {
namespace {

/// One call of run_training().
class Run {
 public:
  Run(const TrainOptions& options, const TrainingTask& task, const RunHooks& hooks);
  std::optional<RunSummary> run();

 private:
  void read_resume();
  /// The checkpoint where the run goes on, as its files need it; nothing at its start.
  std::optional<RunFiles::Checkpointed> checkpointed() const;
  /// Where the batches of a job whose members change go on; nothing of another job.
  std::vector<std::uint64_t> pool_position() const;
  /// Of ranks that something else has started: rank 0 reads the checkpoint and prepares the files, for all.
  void share_files(RankContext& context, Replica& replica);
  /// Of the same at the end.
  void bring_files_together(RankContext& context, Replica& replica, RankReport& report);
  /// `place`: of a simulated rank; else null.
  int run_rank(RankContext& context, const TrainingTask& task, VirtualRank* place);
  /// All ranks in this process, in virtual time, which has place in the job for one.
  int run_all_ranks(RankContext& context);
  RankReport train(RankContext& context, const TrainingTask& task, VirtualRank* place);
  JobResult run_ranks();
  /// Returns the reports of all ranks.
  std::vector<std::string> simulate();
  void show_progress();
  void tell(const std::string& line);
  std::vector<RankReport> reports_of(const JobResult& job) const;
  void finish_files(const RunSummary& summary);

  const TrainingTask& task_;
  const RunHooks& hooks_;
  const bool launched_;   // by something else, as one rank of several
  const bool is_member_;  // the same, of a job whose members change
  std::optional<Checkpoint> resume_;
  RunPlan plan_;
  SharedProgressPage page_;
  std::optional<RunFiles> files_;
  std::optional<RecentSteps> steps_;           // where somebody watches them
  double body_scale_ = 1;                      // of TrainerContext
  std::optional<TimePoint> simulating_since_;  // on this machine's clock
};

/// Of a model of which nothing is computed.
std::vector<ModelLayer> layers_of(const TrainOptions& options) {
  if (!options.model_layers.empty()) return options.model_layers;
  return std::vector<ModelLayer>(static_cast<std::size_t>(options.model_buckets), {1, 1, 2});
}

/// Whether layers are to lie in buckets of their own, since they travel by themselves.
bool goes_by_layer(const RunPlan& plan) {
  const RecipeInfo& recipe = *plan.algorithm.recipe;
  return recipe.by_layer != nullptr && recipe.by_layer(plan.recipe);
}

int exit_status(const RankReport& report) {
  if (!report.error) return 0;
  if (report.usage_error) return 2;
  return report.error->code == Errc::lost_peer ? 3 : 1;
}

RankReport report_without_memory(int rank) {
  return {.rank = rank,
          .error =
              Error{Errc::unavailable,
                    text("rank ", rank, ": too little memory: expected more of it, or less to compute at once"), rank}};
}

/// Of the exception that is being handled.
RankReport report_of_exception(int rank) {
  RankReport report{.rank = rank};
  try {
    throw;
  } catch (const UsageError& error) {
    report.usage_error = true;
    report.error = Error{Errc::bad_input, error.what(), rank};
  } catch (const Failure& failure) {
    report.error = failure.error();
  } catch (const std::bad_alloc&) {
    return report_without_memory(rank);
  } catch (const std::exception& error) {
    const std::string what = json_fault(error);  // of LibTorch with a stack below its first line
    if (what.find("can't allocate memory") != std::string::npos) return report_without_memory(rank);  // LibTorch's
    report.error = Error{Errc::aborted, text("rank ", rank, ": ", what.substr(0, what.find('\n'))), rank};
  }
  return report;
}

Run::Run(const TrainOptions& options, const TrainingTask& task, const RunHooks& hooks)
    : task_(task), hooks_(hooks), launched_(launched_from_outside()), is_member_(launched_as_member()) {
  plan_ = plan_run(options, task.facts());
  if (launched_ && plan_.options.simulated) {
    throw UsageError("simulated ranks are all in one process: start it by itself");
  }
  if (is_member_ && plan_.options.least == 0) {
    throw UsageError(
        "a run in a job whose members change: expected stretto train --ranks MIN:MAX by itself, not under stretto run");
  }
  if ((is_member_ || hooks.start_members) && !plan_.options.resume.empty()) {
    throw UsageError(text("resume ", plan_.options.resume,
                          " in a job to which processes come: expected a range without restarts and others that come, "
                          "for now"));
  }
  if (launched_ && !is_member_ && plan_.options.least > 0) {
    throw UsageError(text("ranks ", plan_.options.least, ":", plan_.options.ranks,
                          " in a job that something else has started, which ends with any of its ranks: expected no "
                          "range"));
  }
  files_.emplace(
      RunFilesOptions{.out = plan_.options.out,
                      .resume = plan_.options.resume,
                      .local = plan_.options.local_records,
                      .config = to_json(plan_.options),
                      .tell = [this](const std::string& line) { tell(line); }},
      plan_.options.least > 0 ? std::max(RoundHeader::kMaxNamedRanks, plan_.options.ranks) : plan_.options.ranks);
  if (!launched_) read_resume();
  if (hooks.recent_steps) {
    if (launched_ || plan_.options.simulated) throw UsageError("steps can be watched of ranks that this process forks");
    steps_.emplace(plan_.options.ranks);
  }
}

void Run::read_resume() {
  if (plan_.options.resume.empty()) return;
  resume_ = read_checkpoint(plan_.options.resume);
  require_same_job(*resume_, plan_);
}

std::optional<RunFiles::Checkpointed> Run::checkpointed() const {
  if (!resume_) return std::nullopt;
  RunFiles::Checkpointed from{.steps = resume_->position.steps, .states = {}};
  if (resume_->any_ranks || plan_.options.least > 0) {  // what ran since may have had more of them
    from.steps.resize(std::max<std::size_t>(from.steps.size(), RoundHeader::kMaxNamedRanks));
  }
  for (const std::string& state : {resume_->paths.replica, resume_->paths.recipe}) {
    from.states.push_back(std::filesystem::path(state).filename().string());
  }
  return from;
}

std::vector<std::uint64_t> Run::pool_position() const {
  return resume_ && plan_.options.least > 0 ? position_of_pool(resume_->position) : std::vector<std::uint64_t>();
}

void Run::share_files(RankContext& context, Replica& replica) {
  Driver& driver = context.world().driver(plan_.options.progress_by);
  Meeting meeting(context.world().engine(), replica, {.tell = [this](const std::string& line) { page_->tell(line); }});
  (void)rank_0_has_checkpoint(meeting, driver, plan_.options.resume);
  const std::string found = meeting.broadcast_text(driver, [this] {
    read_resume();
    return resume_ ? to_json(*resume_) : std::string();
  });
  if (context.rank() != 0 && !found.empty()) resume_ = checkpoint_from_json(found);
  const auto from = checkpointed();
  files_->share(meeting, driver, context.world(), from ? &*from : nullptr);
}

// The others wait for rank 0's last evaluation, which may take long; a rank that is lost ends the wait.
constexpr Duration kLastEvaluation = std::chrono::hours(24);

void Run::bring_files_together(RankContext& context, Replica& replica, RankReport& report) {
  if (files_->all_in_one_folder()) return;
  Meeting meeting(context.world().engine(), replica, {.silence = kLastEvaluation, .timeout = kLastEvaluation});
  const GatheredLines gathered =
      files_->bring_together(meeting, context.world().driver(plan_.options.progress_by), context.world());
  report.lost_records += gathered.lost;
  if (report.why_lost.empty()) report.why_lost = gathered.why_lost;
}

// In virtual time a long step is no news. A wait that lasts for ever is named before it ends the run.
constexpr Duration kVirtualSilence = VirtualRanks::kStuckAfter / 4;

RankReport Run::train(RankContext& context, const TrainingTask& task, VirtualRank* place) {
  if (context.changes() == nullptr && context.size() != plan_.options.ranks) {
    throw UsageError(text("ranks ", plan_.options.ranks, ": this job was started with ", context.size()));
  }
  RankTaskOptions task_options{.seed = plan_.options.seed,
                               .lr = plan_.options.lr,
                               .momentum = plan_.options.momentum,
                               .by_layer = goes_by_layer(plan_)};
  const auto rank_task = task.start_rank(task_options);
  if (is_member_) {
    files_->come();
  } else if (launched_) {
    share_files(context, rank_task->replica());
  }
  task_options.evaluates = true;
  RankReport report;
  {
    if (launched_ && !is_member_ && context.rank() == 0) {
      const std::string between = context.world().transport().between_hosts();
      if (!between.empty() && between != "tcp") page_->tell("messages between hosts go by " + between);
    }
    Trainer trainer({.plan = plan_,
                     .task = *rank_task,
                     .rank = context,
                     .page = *page_,
                     .steps = steps_ ? &*steps_ : nullptr,
                     .folder = files_->path(),
                     .silence = place != nullptr ? kVirtualSilence : kSilence,
                     .resume = resume_ ? &*resume_ : nullptr,
                     .second_task = [&task, task_options] { return task.start_rank(task_options); },
                     .place = place,
                     .body_scale = body_scale_});
    report = trainer.run();
  }
  bring_files_together(context, rank_task->replica(), report);
  return report;
}

int Run::run_rank(RankContext& context, const TrainingTask& task, VirtualRank* place) {
  RankReport report;
  const int number = number_of(context);  // of a rank that may be in no world any more when it fails
  try {
    report = train(context, task, place);
  } catch (const Left&) {
    throw;  // it has no part in the report of those that stay
  } catch (const SimulatedLoss&) {
    throw;  // the same
  } catch (...) {
    report = report_of_exception(number);
  }
  const bool others_go_on = context.changes() != nullptr;  // unless they hear of an abort()
  if (report.error && !others_go_on) page_->stop();
  // A launcher of ranks gets no report of one that has failed, and nobody reads that of one without which others go on.
  if (report.error && (launched_ || others_go_on)) context.complain(*report.error);
  if (!report.error || !is_member_)
    context.report(to_json(report));  // a member that is lost has no part in the summary
  return exit_status(report);
}

void Run::tell(const std::string& line) {
  if (!hooks_.progress) {
    std::fprintf(stderr, "stretto: %s\n", line.c_str());
    return;
  }
  hooks_.progress(
      {.batches = page_->batches(), .total = plan_.total_batches, .rounds = page_->rounds(), .notice = line});
}

void Run::show_progress() {
  while (const auto line = page_->take_line()) tell(*line);
  if (!hooks_.progress) return;
  const SteadyClock clock;
  auto start = page_->start();
  if (start && plan_.options.simulated) {  // there it is a virtual time
    if (!simulating_since_) simulating_since_ = clock.now();
    start = simulating_since_;
  }
  hooks_.progress({.batches = page_->batches(),
                   .total = plan_.total_batches,
                   .rounds = page_->rounds(),
                   .seconds = start ? seconds(clock.now() - *start) : 0,
                   .steps = steps_ ? &*steps_ : nullptr});
}

int Run::run_all_ranks(RankContext& context) {
  std::string all;
  int status = 0;
  try {
    for (const std::string& report : simulate()) all += report + '\n';
  } catch (...) {
    const RankReport report = report_of_exception(0);
    all = to_json(report);
    status = exit_status(report);
  }
  context.report(std::move(all));
  return status;
}

// The process of a simulation has reported for all of its ranks, a line each.
void split_reports(JobResult& job, int ranks) {
  std::istringstream all(job.reports[0]);
  job.reports.assign(static_cast<std::size_t>(ranks), "");
  job.exit_status.assign(static_cast<std::size_t>(ranks), job.exit_status[0]);
  for (std::string& report : job.reports) std::getline(all, report);
}

JobResult Run::run_ranks() {
  const auto main = [this](RankContext& context) {
    if (launched_) return run_rank(context, task_, nullptr);
    const RankReport report = report_without_memory(context.rank());
    end_without_memory([&context, text = to_json(report)]() mutable { context.report(std::move(text)); },
                       exit_status(report));
    return plan_.options.simulated ? run_all_ranks(context) : run_rank(context, task_, nullptr);
  };
  if (launched_) {
    page_->print_lines();
    const TrainOptions& options = plan_.options;
    JobOptions job{.between = options.between, .terms = {{kReportsTo, "stretto train"}}};
    if (options.liveness > Duration::zero()) job.liveness = options.liveness;
    return run_as_launched(main, job).or_throw();
  }
  const auto from = checkpointed();
  hooks_.goes_on ? files_->come_back() : files_->prepare(from ? &*from : nullptr);
  if (hooks_.start_members) return hooks_.start_members();
  JobResult result = run_job({.ranks = plan_.options.simulated ? 1 : plan_.options.ranks,
                              .least = plan_.options.simulated ? 0 : plan_.options.least,
                              .position = pool_position(),
                              .while_running = [this] { show_progress(); },
                              .tell =
                                  [this](const std::string& line) {
                                    if (plan_.options.least == 0 || plan_.options.simulated) page_->stop();
                                    tell(line);
                                  }},
                             main)
                         .or_throw();
  show_progress();
  if (plan_.options.simulated) split_reports(result, plan_.options.ranks);
  return result;
}

std::vector<std::string> Run::simulate() {
  std::optional<NoGradients> nothing;
  SimulatedJob job{.ranks = plan_.options.ranks, .network = plan_.network, .seed = plan_.options.seed};
  job.compute_threads = std::min(job.ranks, plan_.options.compute_threads);
  if (job.compute_threads == 0) job.compute_threads = std::min(job.ranks, num_cores());
  if (plan_.options.least > 0) {
    job.members = SimulatedMembersOptions{.least = plan_.options.least,
                                          .churn = plan_.churn,
                                          .progress_by = plan_.options.progress_by,
                                          .seed = plan_.options.seed,
                                          .tell = [this](const std::string& line) { page_->tell(line); }};
  }
  if (plan_.options.no_gradients) {
    nothing.emplace(task_, plan_.options.model_bytes, layers_of(plan_.options));
    job.network.body_scale = body_scale_ = nothing->scale();
    job.compute_threads = 1;
  }
  // No more ranks allocate at once. Arenas for each of their threads would reserve 64 MiB of addresses apiece.
  mallopt(M_ARENA_MAX, job.compute_threads);
  const TrainingTask& task = nothing ? *nothing : task_;
  return run_simulated(job, [&](RankContext& context, VirtualRank& place) { return run_rank(context, task, &place); });
}

// The first failure by the ranks' reports: that of the rank it happened on, rather than those of the ranks that were
// told.
std::optional<RankReport> worst_of(const std::vector<RankReport>& reports) {
  const auto weight = [](const RankReport& report) {
    if (!report.error) return 0;
    if (report.usage_error) return 4;
    if (report.error->code == Errc::lost_peer) return 1;
    return report.error->rank == report.rank ? 3 : 2;
  };
  const auto worst = std::max_element(reports.begin(), reports.end(),
                                      [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
  if (worst == reports.end() || !worst->error) return std::nullopt;
  return *worst;
}

std::vector<RankReport> Run::reports_of(const JobResult& job) const {
  const std::string so_far = text("after ", page_->batches(), " of ", plan_.total_batches, " batches");
  if (job.interrupted) throw Interrupted("interrupted " + so_far);
  const bool simulated = plan_.options.simulated;
  const auto killed = std::ranges::count_if(job.exit_status, [](int status) { return status > 128; });
  const bool others_may_go_on = static_cast<int>(job.exit_status.size() - killed) >= plan_.options.least;
  const bool survived = plan_.options.least > 0 && !simulated && (job.reached_end || others_may_go_on);
  if (job.first_lost >= 0 && !survived) {
    const int signal = job.exit_status[static_cast<std::size_t>(job.first_lost)] - 128;
    const std::string who = simulated ? "the process of all simulated ranks" : text("rank ", job.first_lost);
    throw Failure({Errc::lost_peer,
                   text(who, " was lost ", so_far, ": ended by signal ", signal, " (", strsignal(signal), ")",
                        plan_.options.least > 0 ? text("; fewer than ", plan_.options.least, " are left") : ""),
                   job.first_lost});
  }
  std::vector<RankReport> reports;
  std::optional<Error> silent;
  for (std::size_t rank = 0; rank < job.reports.size(); ++rank) {
    const bool has_left = plan_.options.least > 0 && job.exit_status[rank] == 0 && job.reports[rank].empty();
    if (has_left || (job.reached_end && job.exit_status[rank] != 0)) continue;  // the others have gone on without it
    auto report = rank_report_from_json(job.reports[rank]);
    if (report) {
      reports.push_back(*std::move(report));
    } else if (!silent) {
      silent = Error{Errc::aborted,
                     text("rank ", rank, " ended with status ", job.exit_status[rank], " ", so_far, ": ",
                          job.reports[rank].empty() ? "it has left no report" : report.error().message),
                     static_cast<int>(rank)};
    }
  }
  const auto worst = worst_of(reports);
  if (worst && worst->usage_error) throw UsageError(worst->error->message);
  if (worst && !(silent && worst->error->code == Errc::lost_peer)) throw Failure(*worst->error);
  if (silent) throw Failure(*silent);
  // The rank that has spoken for all at the end comes first.
  const auto first = std::ranges::find_if(reports, [](const RankReport& report) { return report.totals.has_value(); });
  if (first != reports.end()) std::rotate(reports.begin(), first, first + 1);
  if (!reports.empty() && first == reports.end()) {
    throw Failure({Errc::lost_peer, "the rank that was to report for all was lost after the end of the job", -1});
  }
  return reports;
}

void Run::finish_files(const RunSummary& summary) {
  files_->finish(to_json(summary));
  if (summary.lost_records > 0) {
    tell(text(summary.lost_records, " lines of records and trace could not be written to ", files_->path(), ": ",
              summary.why_lost, "; the training is whole"));
  }
}

std::optional<RunSummary> Run::run() {
  const JobResult job = run_ranks();
  if (is_member_) return std::nullopt;
  if (const auto place = launched_rank(); place && place->rank != 0) return std::nullopt;  // rank 0 has all reports
  files_->merge_traces();  // of a run that failed, too: where it did can be seen there
  if (hooks_.start_members && !job.reached_end) return std::nullopt;
  const std::vector<RankReport> reports = reports_of(job);
  if (reports.empty() && plan_.options.simulated) {
    const std::uint64_t batches = page_->batches();
    throw Failure({Errc::lost_peer,
                   text("no member is left after ", batches, " of ", plan_.total_batches, " batches",
                        batches == 0 ? ": none lives long enough to begin" : ""),
                   -1});
  }
  if (reports.empty()) return std::nullopt;
  RunSummary summary = summarize(plan_, reports, resume_ ? &*resume_ : nullptr);
  summary.files_elsewhere = files_->elsewhere();
  finish_files(summary);
  return summary;
}

}  // namespace

std::optional<RunSummary> run_training(const TrainOptions& options, const TrainingTask& task, const RunHooks& hooks) {
  return Run(options, task, hooks).run();
}

TrainOptions resolved(const TrainOptions& options, const TaskFacts& facts) {
  return plan_run(options, facts).options;
}

}  // namespace stretto
