#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "stretto/membership/hosts/bulletin.h"
#include "stretto/membership/hosts/bulletins/pmi_bulletin.h"
#include "stretto/membership/hosts/bulletins/pmix_bulletin.h"
#include "stretto/membership/hosts/bulletins/slurm_words.h"
#include "stretto/membership/hosts/bulletins/store_bulletin.h"
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
  const char* local_size_variable;             // ranks on this host, or on each; may be missing, or null
  std::span<const char* const> job_variables;  // tell its jobs apart
  const char* only_with = nullptr;             // a variable without which the others are somebody else's
  std::string_view begins = {};                // and what its value begins with
  const char* other_rank_variable = nullptr;   // counts where rank_variable is not set
  const char* node_variable = nullptr;         // the number of this host, where local sizes are of each
};

/// Of a pod of an indexed job of Kubernetes, which says nothing of how many there are.
constexpr const char* kIndexOfPod = "JOB_COMPLETION_INDEX";
constexpr const char* kNodeOfSlurm = "SLURM_NODEID";

// A restarted job has another number of restarts: what is left of the one before does not meet it.
constexpr const char* kTorchrunJob[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT"};
constexpr const char* kMeeting = "STRETTO_MEETING";
constexpr const char* kByHandJob[] = {kMeeting};
constexpr const char* kMpirunJob[] = {"PMIX_NAMESPACE"};
constexpr const char* kSrunJob[] = {"SLURM_JOB_ID", "SLURM_STEP_ID"};

// By hand comes first, then torchrun: what it starts inside a job of another one has that one's variables, too.
// `stretto run` sets torchrun's: a launcher inside its job sets these anew, the name of the job among them.
constexpr Starter kStarters[] = {
    {kMeeting, "STRETTO_RANKS", "STRETTO_RANK", nullptr, kByHandJob, kMeeting, {}, kIndexOfPod},
    {"stretto run", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", kTorchrunJob, "TORCHELASTIC_RUN_ID", kRunIdBegins},
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", kTorchrunJob},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", kMpirunJob},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", {}, "MPI_LOCALNRANKS"},
    // Of the step: SLURM_NTASKS is there in a batch script, too, which is one process.
    {"srun",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_PROCID",
     "SLURM_STEP_TASKS_PER_NODE",
     kSrunJob,
     nullptr,
     {},
     nullptr,
     kNodeOfSlurm},
    // Process managers other than hydra. srun sets these, too (--mpi=pmi2).
    {"mpiexec", "PMI_SIZE", "PMI_RANK", nullptr, {}},
};

/// The value of an environment variable; null where it is not set, or empty.
const char* given(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// The nearest process above this one that has this name; nothing: none has.
std::optional<pid_t> ancestor(std::string_view name) {
  for (pid_t at = ::getppid(); at > 1;) {
    std::string line;  // "17 (sh) S 16 …"
    std::getline(std::ifstream(text("/proc/", at, "/stat")), line);
    const std::size_t begin = line.find('('), end = line.rfind(')');
    if (end == line.npos) break;
    if (line.substr(begin + 1, end - begin - 1) == name) return at;
    char state = ' ';
    at = 0;
    std::istringstream(line.substr(end + 1)) >> state >> at;
  }
  return std::nullopt;
}

/// "MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 …"
std::string name_of_job(const Starter& starter) {
  std::string name = starter.name;
  // Nothing in the environment tells two of its jobs apart.
  if (const auto manager = name == "mpiexec" ? ancestor("hydra_pmi_proxy") : std::nullopt) name += text(' ', *manager);
  const auto add = [&name](const char* variable) {
    const char* value = std::getenv(variable);
    name += text(' ', variable, '=', value != nullptr ? value : "");
  };
  for (const char* variable : starter.job_variables) add(variable);
  add("STRETTO_JOB");
  return name;
}

std::optional<int> whole_number(std::string_view words) {
  const auto number = take_number(words);
  return words.empty() ? number : std::nullopt;
}

/// What a variable of Slurm's has; 0 where it is not set.
int number_of(const char* variable) {
  const char* const number = given(variable);
  return number != nullptr ? whole_number(number).value_or(0) : 0;
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
  const char* rank_variable = starter.rank_variable;
  const char* const other = starter.other_rank_variable;
  if (other != nullptr && given(rank_variable) == nullptr && given(other) != nullptr) rank_variable = other;
  const char* word = std::getenv(rank_variable);
  if (word == nullptr && *ranks == 1) return std::nullopt;
  if (word == nullptr) {
    throw UsageError(text(starter.size_variable, "=", size, " without ", starter.rank_variable, ": expected both, as ",
                          starter.name, " sets them, or neither"));
  }
  const auto rank = whole_number(word);
  if (!rank || *rank < 0 || *rank >= *ranks) {
    throw UsageError(text(rank_variable, "='", word, "' with ", starter.size_variable, "=", size,
                          ": expected a rank from 0 to ", *ranks - 1));
  }
  if (*ranks == 1) return std::nullopt;
  LaunchedRank place{.rank = *rank, .ranks = *ranks, .local_ranks = *ranks, .starter = starter.name};
  const char* local_size = starter.local_size_variable != nullptr ? std::getenv(starter.local_size_variable) : nullptr;
  if (local_size != nullptr) {
    const auto local_ranks =
        tasks_on(starter.node_variable != nullptr ? number_of(starter.node_variable) : 0, local_size);
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
  const auto says_how_many = [](const Starter& starter) { return given(starter.size_variable) != nullptr; };
  if (given(kMeeting) != nullptr && std::ranges::none_of(kStarters, says_how_many)) {
    throw UsageError(text(kMeeting, '=', given(kMeeting),
                          " without STRETTO_RANKS: expected how many ranks meet there, and STRETTO_RANK of each"));
  }
  return std::nullopt;
}

std::shared_ptr<Bulletin> given_meeting(int rank, int ranks) {
  const char* const meeting = given(kMeeting);
  if (meeting == nullptr || ranks == 1) return nullptr;
  return std::make_shared<GivenAddress>(rank, ranks, meeting);
}

namespace {

/// The store of torchrun's agent; null: it keeps none.
std::shared_ptr<Bulletin> store_of_torchrun(const LaunchedRank& place) {
  const char* const host = given("MASTER_ADDR");
  const char* const port = given("MASTER_PORT");
  const char* const agent = given("TORCHELASTIC_USE_AGENT_STORE");
  if (host == nullptr || port == nullptr || agent == nullptr || std::string_view(agent) != "True") return nullptr;
  return std::make_shared<StoreBulletin>(place.rank, place.ranks, host, port);
}

/// PMIx, of mpirun and srun; null: they serve none.
std::shared_ptr<Bulletin> pmix(const LaunchedRank& place) {
  const char* const rank = given("PMIX_RANK");
  if (given("PMIX_NAMESPACE") == nullptr || rank == nullptr || whole_number(rank) != place.rank) return nullptr;
  return std::make_shared<PmixBulletin>(place.rank, place.ranks);
}

/// PMI-1, of mpiexec.
std::shared_ptr<Bulletin> pmi(const LaunchedRank& place) {
  const char* const descriptor = given("PMI_FD");
  if (descriptor == nullptr || !whole_number(descriptor)) return nullptr;
  return std::make_shared<PmiBulletin>(place.rank, place.ranks, *whole_number(descriptor));
}

/// Of srun --mpi=none, an address that all ranks reckon alike: the first node, and a port made of the step's numbers.
std::shared_ptr<Bulletin> first_node_of_slurm(const LaunchedRank& place) {
  const char* const nodes = given("SLURM_STEP_NODELIST");
  if (nodes == nullptr || given("SLURM_JOB_ID") == nullptr) return nullptr;
  if (place.rank == 0 && number_of(kNodeOfSlurm) != 0) return nullptr;
  const std::string node = first_node(nodes);
  const char* const dealt = given("SLURM_DISTRIBUTION");
  if (node.empty() || (dealt != nullptr && std::string_view(dealt).starts_with("arbitrary"))) return nullptr;
  constexpr int kFirstPort = 20'000, kPorts = 10'000, kSteps = 8;
  const int job = number_of("SLURM_JOB_ID") % kPorts, step = number_of("SLURM_STEP_ID") % kSteps;
  const int port = kFirstPort + (job * kSteps + step) % kPorts;
  return std::make_shared<GivenAddress>(place.rank, place.ranks, text(node, ':', port));
}

/// For ranks on several hosts: where rank 0's address is left. Null: all are on one host.
std::shared_ptr<Bulletin> bulletin_by_environment(const LaunchedRank& place) {
  if (auto meeting = given_meeting(place.rank, place.ranks)) {
    // Any other pod of the cluster reaches this one.
    if (given("STRETTO_RANK") != nullptr || given(kIndexOfPod) == nullptr || given("STRETTO_TOKEN") != nullptr) {
      return meeting;
    }
    throw UsageError(text(kMeeting, '=', given(kMeeting), " in a pod of Kubernetes (", kIndexOfPod, '=', place.rank,
                          ") without STRETTO_TOKEN: expected the same in all of them, from a secret"));
  }
  if (place.local_ranks == place.ranks) return nullptr;
  const std::string_view starter = place.starter;
  if (starter == "torchrun") {
    if (auto store = store_of_torchrun(place)) return store;
  } else if (starter == "mpiexec") {
    if (auto manager = pmi(place)) return manager;
  } else if (starter == "mpirun" || starter == "srun") {
    if (auto manager = pmix(place)) return manager;
    if (auto node = starter == "srun" ? first_node_of_slurm(place) : nullptr) return node;
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
  if (!launched_from_outside()) {
    return Error{
        Errc::unavailable,
        "this process is no rank of stretto run, torchrun, mpirun or srun; start it with stretto run --ranks N"};
  }
  return run_joined(main, options);
}

Result<JobResult> launch(const JobOptions& options, const RankMain& main) {
  return launched_from_outside() ? run_as_launched(main, options) : run_job(options, main);
}

}  // namespace stretto
