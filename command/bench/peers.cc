#include "command/bench/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "command/cli/values.h"
#include "command/machine/machine.h"
#include "command/machine/programs.h"
#include "stretto/observe/temporary_folder.h"

namespace stretto::command {

namespace {

using Words = std::vector<std::string>;

enum class Idle { yields_where_cores_are_few, spins };

Error missing(const std::string& what, const std::string& package) {
  return {Errc::unavailable, fmt::format("{} is missing (package {})", what, package)};
}

Result<std::string> run_program_of(Words words, const Words& environment, const PeerJob& job) {
  words.push_back(job.benchmark);
  words.insert(words.end(), job.arguments.begin(), job.arguments.end());
  return run_program(words, environment, job.limit);
}

Result<std::string> run_openmpi(const PeerJob& job, Idle idle) {
  // Where two MPIs are installed the plain name may be the other one's.
  std::string mpirun = find_on_path("mpirun.openmpi");
  if (mpirun.empty()) mpirun = find_on_path("mpirun");
  if (mpirun.empty()) return missing("mpirun", "openmpi-bin");
  const std::string program = find_companion("stretto-openmpi-peer");
  if (program.empty()) return missing("stretto-openmpi-peer", "libopenmpi-dev, at build time");
  // Beside another mpirun of the same user: they race for the folder that they share, which one removes where the other
  // makes it.
  const TemporaryFolder session;
  // Its manual advises yielding where ranks outnumber cores.
  const bool yields = idle == Idle::yields_where_cores_are_few && job.ranks > this_machine().cores;
  Words words = {mpirun, "--oversubscribe", "-n", std::to_string(job.ranks)};
  Words environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  const auto set = [&words](const std::string& parameter, const std::string& value) {
    words.insert(words.end(), {"--mca", parameter, value});
  };
  set("mpi_yield_when_idle", yields ? "1" : "0");
  if (job.hosts) {
    Words slots;
    const int each = job.ranks / job.hosts->size();
    for (int host = 1; host <= job.hosts->size(); ++host) slots.push_back(fmt::format("h{}:{}", host, each));
    // Bound, the first ranks of all hosts would share this machine's first core.
    words.insert(words.end(), {"--host", fmt::format("{}", fmt::join(slots, ",")), "--bind-to", "none"});
    set("plm_rsh_agent", job.hosts->script() + " rsh");
    set("pml", "ob1");
    set("osc", "^ucx");
    set("btl", "self,vader,tcp");
    set("btl_tcp_if_include", "eth0");
    set("oob_tcp_if_include", "10.77.0.0/24");
    words.insert(words.begin(), {job.hosts->script(), "exec", "0"});  // from where hosts.sh reaches all
    for (const std::string& variable : job.hosts->environment()) environment.push_back(variable);
  } else {
    set("btl", "self,vader");
    environment.push_back("OMPI_MCA_orte_tmpdir_base=" + session.path());
  }
  words.push_back(program);
  return run_program_of(std::move(words), environment, job);
}

Result<std::string> run_mpich(const PeerJob& job) {
  const std::string mpirun = find_on_path("mpirun.mpich");
  if (mpirun.empty()) return missing("mpirun.mpich", "mpich");
  const std::string program = find_companion("stretto-mpich-peer");
  if (program.empty()) return missing("stretto-mpich-peer", "libmpich-dev, at build time");
  return run_program_of({mpirun, "-n", std::to_string(job.ranks), program}, {}, job);
}

Result<std::string> run_gloo(const PeerJob& job) {
  const std::string script = find_companion("gloo_peer.py");
  const std::string python = find_python();
  if (script.empty()) return missing("gloo_peer.py", "this one");
  if (python.empty()) return missing("a Python with torch.distributed", "torch in .venv");
  Words environment = {"GLOO_SOCKET_IFNAME=lo"};
  if (job.hosts) {
    Words networks;
    for (int rank = 0; rank < job.ranks; ++rank)
      networks.push_back(job.hosts->network(job.hosts->host_of(rank, job.ranks)));
    environment = {"GLOO_SOCKET_IFNAME=eth0", fmt::format("GLOO_PEER_NETWORKS={}", fmt::join(networks, ":"))};
  }
  return run_program_of({python, script, std::to_string(job.ranks)}, environment, job);
}

}  // namespace

const std::vector<Peer>& known_peers() {
  static const std::vector<Peer> peers = {
      {"openmpi", [](const PeerJob& job) { return run_openmpi(job, Idle::yields_where_cores_are_few); }},
      {"openmpi-spin", [](const PeerJob& job) { return run_openmpi(job, Idle::spins); }},
      {"mpich", run_mpich},
      {"gloo", run_gloo}};
  return peers;
}

const Peer& openmpi() {
  return known_peers().front();
}

std::vector<std::string> peer_names() {
  std::vector<std::string> names;
  for (const Peer& peer : known_peers()) names.push_back(peer.name);
  return names;
}

std::vector<Peer> parse_peers(const std::string& list) {
  std::vector<Peer> out;
  for (const std::string& name : parse_names("--against", list, peer_names())) {
    out.push_back(*std::ranges::find(known_peers(), name, &Peer::name));
  }
  return out;
}

std::vector<Reading> parse_readings(const std::string& text, int ranks, std::size_t num_values) {
  std::vector<Reading> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Reading reading{ranks, 0, std::vector<double>(num_values)};
    fields >> reading.bytes;
    for (double& value : reading.values) fields >> value;
    if (fields && (fields >> std::ws).eof()) out.push_back(std::move(reading));
  }
  return out;
}

Result<std::vector<Reading>> measure_peer(const Peer& peer, PeerJob job, std::span<const std::uint64_t> sizes,
                                          std::size_t num_values) {
  for (const std::uint64_t bytes : sizes) job.arguments.push_back(std::to_string(bytes));
  const auto text = peer.run(job);
  if (!text) return text.error();
  auto readings = parse_readings(*text, job.ranks, num_values);
  if (readings.size() != sizes.size()) {
    return Error{Errc::aborted,
                 fmt::format("{} printed results of {} sizes out of {}", peer.name, readings.size(), sizes.size())};
  }
  return readings;
}

}  // namespace stretto::command
