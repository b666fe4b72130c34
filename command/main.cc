#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "command/cli/commands.h"
#include "command/cli/subcommand.h"
#include "command/machine/programs.h"
#include "command/ordering/ordering_commands.h"
#include "command/pages/pages.h"
#include "command/profile/profile_command.h"
#include "command/reproduce/reproductions.h"
#include "command/schedule/schedule_plan.h"
#include "command/train/compare_program.h"
#include "command/train/training_options.h"
#include "stretto/base/error.h"
#include "stretto/papers/register.h"

// Commands that do not train do not load Torch. Those that do are a second program, which this one becomes once it has
// checked the options.

namespace stretto::command {
namespace {

/// The limits of this process under which the dynamic linker may not get LibTorch into memory, as `ulimit` takes them;
/// empty where none is that low.
std::string low_limits() {
  struct Limit {
    decltype(RLIMIT_AS) resource;
    const char* option;
    rlim_t unit;    // of ulimit
    rlim_t enough;  // for any LibTorch; infinity: none is
  };
  std::string low;
  for (const Limit& limit : {Limit{RLIMIT_AS, "-v", 1024, RLIM_INFINITY}, Limit{RLIMIT_DATA, "-d", 1024, RLIM_INFINITY},
                             Limit{RLIMIT_NOFILE, "-n", 1, 64}}) {
    rlimit here{};
    if (::getrlimit(limit.resource, &here) != 0 || here.rlim_cur >= limit.enough) continue;
    low += fmt::format("{} {} {}", low.empty() ? "ulimit" : ",", limit.option, here.rlim_cur / limit.unit);
  }
  return low;
}

/// A program that the dynamic linker gives up says nothing of ours. Where a limit is low enough for this, it is started
/// once before this process becomes it.
void require_that_it_starts(const std::string& program) {
  const std::string limits = low_limits();
  if (limits.empty()) return;
  const auto version = run_program({program, "--version"}, {}, std::chrono::minutes(1));
  if (version) return;
  throw Failure({Errc::unavailable, fmt::format("{} cannot be started with {}: expected limits that leave room for "
                                                "LibTorch ({})",
                                                program, limits, version.error().message)});
}

// Replaces this program by the one that trains, `stretto-train COMMAND ARGUMENTS`. Returns only when that is not
// possible: throws Failure (Errc::unavailable) that says why.
[[noreturn]] void become_training_program(const std::vector<std::string>& arguments) {
  const std::string program = find_companion("stretto-train");
  if (program.empty()) {
    throw Failure({Errc::unavailable,
                   fmt::format("this build cannot train: there is no stretto-train beside {}. It was built without "
                               "LibTorch (STRETTO_TORCH=OFF); `make build` sets LibTorch up and builds all",
                               program_folder() + "/stretto")});
  }
  require_that_it_starts(program);
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  throw Failure({Errc::unavailable, fmt::format("{} cannot be started: {}", program, std::strerror(errno))});
}

/// `networks`: of ordering_benchmarks().
Subcommand bench_command(std::function<int(const OrderingPlanCommand&)> networks) {
  Subcommand group{
      .name = "bench",
      .summary = "Measures our collectives beside those of other libraries.",
      .introduction = "Measures our collectives, and beside them, in the same run, those of other libraries.",
      .table = {bench_allreduce_command(), bench_skew_command(), bench_spin_command(), bench_overlap_command(),
                bench_simulate_command(), bench_limits_command(), bench_link_command(), bench_grid_command(),
                bench_tune_command(), bench_plot_command()}};
  for (Subcommand& command : ordering_benchmarks(std::move(networks))) group.table.push_back(std::move(command));
  return group;
}

Subcommand predict_command() {
  return {.name = "predict",
          .summary = "Says how fast a job will be, from what one worker takes.",
          .introduction = "Says how fast a job of data-parallel training will be, from what one worker takes.",
          .table = {predict_coarse_command(), predict_fine_command(), predict_fit_command(), predict_run_command()}};
}

}  // namespace
}  // namespace stretto::command

using namespace stretto::command;

int main(int argc, char** argv) {
  stretto::register_papers();
  const Arguments arguments(argv + 1, argv + argc);
  const auto train = [&arguments](const auto&...) -> int { become_training_program(arguments); };
  std::vector<Subcommand> without_training = {fig9_command(), group_latency_command(), idle_command()};
  for (Subcommand& command : ordering_reproductions()) without_training.push_back(std::move(command));
  Subcommand program{
      .name = "stretto",
      .summary = "distributed training that does not wait for its slowest worker",
      .introduction =
          "Distributed training that does not wait for its slowest worker. Compares synchronous training "
          "with partial collectives on real data, checks their promises, and shows what waiting costs.",
      .table = {train_command(train), run_command(), join_command(), members_command(), leave_command(),
                compare_command(train), reproduce_command(std::move(without_training), train), bench_command(train),
                profile_command(train), predict_command(), advise_command(), report_command(), check_command(),
                schedule_command(), schedule_grid_command(), schedule_plan_command(train)}};
  add_comparisons_of_own(program);
  program.table.push_back(man_command(program));
  program.table.push_back(completion_command(program));
  return dispatch(program, arguments);
}
