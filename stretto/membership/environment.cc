#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "stretto/membership/hosts/bulletin.h"
#include "stretto/membership/hosts/store_bulletin.h"
#include "stretto/membership/launch.h"
#include "stretto/membership/masters/job_address.h"
#include "stretto/membership/masters/remote_job.h"
#include "stretto/membership/views/member_place.h"

namespace stretto {
namespace {

/// What starts ranks other than our own launcher, a person included, and how it shows in the environment.
struct Starter {
  const char* name;
  const char* size_variable;
  const char* rank_variable;                   // must be there, too
  const char* local_size_variable;             // ranks on this host; may be missing, or null
  std::span<const char* const> job_variables;  // tell its jobs apart
  bool shares_memory;
  const char* only_with = nullptr;  // a variable without which the others are somebody else's
  std::string_view begins = {};     // and what its value begins with
};

// A restarted job has another number of restarts: what is left of the one before does not meet it.
constexpr const char* kTorchrunJob[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT"};
constexpr const char* kByHandJob[] = {"STRETTO_MEETING"};
constexpr const char* kMpirunJob[] = {"PMIX_NAMESPACE"};
constexpr const char* kSrunJob[] = {"SLURM_JOB_ID", "SLURM_STEP_ID"};

// By hand comes first, then torchrun: what it starts inside a job of another one has that one's variables, too.
// `stretto run` sets torchrun's: a launcher inside its job sets these anew, the name of the job among them.
constexpr Starter kStarters[] = {
    {"STRETTO_MEETING", "STRETTO_RANKS", "STRETTO_RANK", nullptr, kByHandJob, true, "STRETTO_MEETING"},
    {"stretto run", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", kTorchrunJob, true, "TORCHELASTIC_RUN_ID", kRunIdBegins},
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", kTorchrunJob, true},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", kMpirunJob, false},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", {}, false},
    // Of the step: SLURM_NTASKS is there in a batch script, too, which is one process.
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", kSrunJob, false},
};

/// The value of an environment variable; null where it is not set, or empty.
const char* given(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// "MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 …"
std::string name_of_job(const Starter& starter) {
  std::string name = starter.name;
  const auto add = [&name](const char* variable) {
    const char* value = std::getenv(variable);
    name += text(' ', variable, '=', value != nullptr ? value : "");
  };
  for (const char* variable : starter.job_variables) add(variable);
  add("STRETTO_JOB");
  return name;
}

/// The whole number with which `words` begin, and what follows it.
std::pair<std::optional<int>, std::string_view> split_number(std::string_view words) {
  int number = 0;
  const auto [at, error] = std::from_chars(words.data(), words.data() + words.size(), number);
  if (error != std::errc()) return {std::nullopt, words};
  return {number, words.substr(static_cast<std::size_t>(at - words.data()))};
}

std::optional<int> whole_number(std::string_view words) {
  const auto [number, rest] = split_number(words);
  return rest.empty() ? number : std::nullopt;
}

/// The place that this starter has given to this process; nothing where it has not started it as one of several.
std::optional<LaunchedRank> place_by(const Starter& starter) {
  if (starter.only_with != nullptr) {
    const char* value = std::getenv(starter.only_with);
    if (value == nullptr || !std::string_view(value).starts_with(starter.begins)) return std::nullopt;
  }
  const char* size = std::getenv(starter.size_variable);
  if (size == nullptr) return std::nullopt;
  const auto ranks = whole_number(size);
  if (!ranks || *ranks < 1) {
    throw UsageError(text(starter.size_variable, "='", size, "', as ", starter.name,
                          " sets it: expected a number of ranks, from 1"));
  }
  const char* word = std::getenv(starter.rank_variable);
  if (word == nullptr && *ranks == 1) return std::nullopt;
  if (word == nullptr) {
    throw UsageError(text(starter.size_variable, "=", size, " without ", starter.rank_variable, ": expected both, as ",
                          starter.name, " sets them, or neither"));
  }
  const auto rank = whole_number(word);
  if (!rank || *rank < 0 || *rank >= *ranks) {
    throw UsageError(text(starter.rank_variable, "='", word, "' with ", starter.size_variable, "=", size,
                          ": expected a rank from 0 to ", *ranks - 1));
  }
  if (*ranks == 1) return std::nullopt;
  LaunchedRank place{.rank = *rank,
                     .ranks = *ranks,
                     .local_ranks = *ranks,
                     .starter = starter.name,
                     .shares_memory = starter.shares_memory};
  const char* local_size = starter.local_size_variable != nullptr ? std::getenv(starter.local_size_variable) : nullptr;
  if (local_size != nullptr) {
    const auto local_ranks = split_number(local_size).first;  // Slurm: "4(x2),3" begins with ours
    if (!local_ranks || *local_ranks < 1 || *local_ranks > *ranks) {
      throw UsageError(text(starter.local_size_variable, "='", local_size, "' with ", starter.size_variable, "=", size,
                            ": expected the number of ranks on this host, from 1 to ", *ranks));
    }
    place.local_ranks = *local_ranks;
  }
  return place;
}

}  // namespace

bool is_of_a_starter(std::string_view variable) {
  if (variable == MemberPlace::kVariable || variable == JobAddress::kVariable) return true;
  // What follows these speaks of the job, too, to MPI and to torch.distributed.
  for (const char* begin : {"TORCHELASTIC_", "OMPI_COMM_WORLD_", "PMIX_", "PMI_"}) {
    if (variable.starts_with(begin)) return true;
  }
  return std::ranges::any_of(kStarters, [variable](const Starter& starter) {
    return variable == starter.size_variable || variable == starter.rank_variable ||
           (starter.local_size_variable != nullptr && variable == starter.local_size_variable) ||
           (starter.only_with != nullptr && variable == starter.only_with);
  });
}

std::optional<Launch> find_launch() {
  for (const Starter& starter : kStarters) {
    if (const auto place = place_by(starter)) return Launch{.place = *place, .job = name_of_job(starter)};
  }
  return std::nullopt;
}

std::shared_ptr<Bulletin> given_meeting(int rank, int ranks) {
  const char* const meeting = given("STRETTO_MEETING");
  if (meeting == nullptr || ranks == 1) return nullptr;
  return std::make_shared<GivenAddress>(rank, ranks, meeting);
}

namespace {

/// For ranks on several hosts: where rank 0's address is left. Null: all are on one host.
std::shared_ptr<Bulletin> bulletin_by_environment(const LaunchedRank& place) {
  if (auto given = given_meeting(place.rank, place.ranks)) return given;
  if (place.local_ranks == place.ranks) return nullptr;
  const char* host = std::getenv("MASTER_ADDR");
  const char* port = std::getenv("MASTER_PORT");
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (host != nullptr && port != nullptr && agent != nullptr && std::string_view(agent) == "True") {
    return std::make_shared<StoreBulletin>(place.rank, place.ranks, host, port);
  }
  throw Failure({Errc::unavailable, text(place.starter, " has started ", place.ranks, " ranks, ", place.local_ranks,
                                         " of them on this host, and keeps no store where they could meet: expected "
                                         "STRETTO_MEETING=host:port, an address of rank 0's host")});
}

/// Of a process that something else has started, as a member of a job whose master listens there.
std::shared_ptr<const MemberPlace> ask_for_place(const std::string& words) {
  const auto address = JobAddress::parse(words);
  if (!address) throw UsageError(text(JobAddress::kVariable, "='", words, "': ", address.error().message));
  if (const auto place = launched_rank(); place && place->ranks > 1) {
    throw UsageError(text(JobAddress::kVariable, '=', words, " in one of ", place->ranks, " ranks that ",
                          place->starter,
                          " has started: it ends all when one is lost; expected a launcher of its own "
                          "for each, as in torchrun --nproc-per-node 1"));
  }
  struct Asked {
    explicit Asked(RemoteJob::Options options) : job(std::move(options)), place(job.give_place({})) {}
    RemoteJob job;  // as long as the place is this process's
    MemberPlace place;
  };
  const Token token = JobSecret::find({}, *address).or_throw();
  const auto say = [](const std::string& line) { std::fprintf(stderr, "stretto: %s\n", line.c_str()); };
  const auto asked = std::make_shared<Asked>(RemoteJob::Options{.at = *address, .token = token, .tell = say});
  return {asked, &asked->place};
}

}  // namespace

JoinOptions join_options_by_environment() {
  std::shared_ptr<const MemberPlace> member;
  if (const auto place = member_place()) {
    member = std::make_shared<MemberPlace>(*place);
  } else if (const char* address = given(JobAddress::kVariable)) {
    member = ask_for_place(address);
  }
  if (member) {
    return {.rank = static_cast<int>(member->number), .ranks = member->most, .job = "stretto run", .member = member};
  }
  const auto launch = find_launch();
  if (!launch) return {.rank = 0, .ranks = 1, .job = text("process ", getpid(), " alone")};
  const LaunchedRank& place = launch->place;
  JoinOptions options{.rank = place.rank, .ranks = place.ranks, .job = launch->job};
  options.bulletin = bulletin_by_environment(place);
  if (options.bulletin) options.timeout = std::chrono::minutes(5);  // images are pulled at different speeds
  return options;
}

std::optional<LaunchedRank> launched_rank() {
  if (const auto launched = find_launch()) return launched->place;
  return std::nullopt;
}

bool launched_from_outside() {
  return launched_as_member() || launched_rank().has_value();
}

bool launched_as_member() {
  return given(MemberPlace::kVariable) != nullptr || given(JobAddress::kVariable) != nullptr;
}

Result<JobResult> run_as_launched(const RankMain& main, const JobOptions& options) {
  if (launched_as_member()) return run_joined(main, options);
  const auto launched = find_launch();
  if (!launched) {
    return Error{
        Errc::unavailable,
        "this process is no rank of stretto run, torchrun, mpirun or srun; start it with stretto run --ranks N"};
  }
  return launched->place.shares_memory ? run_joined(main, options) : run_under_mpi(*launched, main, options.prepare);
}

Result<JobResult> launch(const JobOptions& options, const RankMain& main) {
  return launched_from_outside() ? run_as_launched(main, options) : run_job(options, main);
}

}  // namespace stretto
