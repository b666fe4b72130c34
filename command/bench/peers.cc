#include "command/bench/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "command/cli/values.h"
#include "command/machine/machine.h"
#include "command/machine/programs.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"

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

// The places of so many ranks, in blocks as ours, as both MPIs read them.
std::string slots_of(const PeerJob& job) {
  Words slots;
  for (int host = 1; host <= job.hosts->size(); ++host) {
    slots.push_back(fmt::format("h{}:{}", host, job.ranks / job.hosts->size()));
  }
  return fmt::format("{}", fmt::join(slots, ","));
}

// Has a launcher run beside the switch, from where hosts.sh reaches all hosts.
void launch_between_hosts(const PeerJob& job, Words& words, Words& environment) {
  words.insert(words.begin(), {job.hosts->script(), "exec", "0"});
  for (const std::string& variable : job.hosts->environment()) environment.push_back(variable);
}

// Open MPI's own limit between hosts, in bytes, and one above all bodies.
constexpr std::uint64_t kOwnEagerLimit = 65536, kAllEager = std::uint64_t{1} << 30;

Result<std::string> run_openmpi(const PeerJob& job, Idle idle, std::uint64_t eager_limit = kOwnEagerLimit) {
  if (!job.hosts && eager_limit != kOwnEagerLimit) {
    return Error{Errc::unavailable, "on one host it would be the same as openmpi (--over)"};
  }
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
    // Bound, the first ranks of all hosts would share this machine's first core.
    words.insert(words.end(), {"--host", slots_of(job), "--bind-to", "none"});
    set("plm_rsh_agent", job.hosts->script() + " rsh");
    set("pml", "ob1");
    set("osc", "^ucx");
    set("btl", "self,vader,tcp");
    set("btl_tcp_if_include", "eth0");
    set("oob_tcp_if_include", "10.77.0.0/24");
    set("btl_tcp_eager_limit", std::to_string(eager_limit));
    set("btl_tcp_max_send_size", std::to_string(std::max<std::uint64_t>(eager_limit, 131072)));  // 128 KiB is its own
    launch_between_hosts(job, words, environment);
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
  Words words = {mpirun, "-n", std::to_string(job.ranks)};
  Words environment;
  const TemporaryFolder session;
  if (job.hosts) {
    // Hydra takes a remote shell of one word.
    const std::string shell = session.path() + "/rsh";
    write_whole_file(shell, fmt::format("#!/bin/sh\nexec '{}' rsh \"$@\"\n", job.hosts->script())).or_throw();
    std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
    // With all transports that it finds, UCX 1.13 stood still from four ranks on.
    words.insert(words.end(), {"-hosts", slots_of(job), "-launcher", "rsh", "-launcher-exec", shell, "-localhost",
                               "10.77.0.254", "-genv", "UCX_NET_DEVICES", "eth0", "-genv", "UCX_TLS", "tcp,self,sm"});
    launch_between_hosts(job, words, environment);
  }
  words.push_back(program);
  return run_program_of(std::move(words), environment, job);
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
  static const std::string kOwnEager =
      fmt::format("TCP, bodies above {} wait (btl_tcp_eager_limit)", to_bytes(kOwnEagerLimit));
  static const std::vector<Peer> peers = {
      {"openmpi", [](const PeerJob& job) { return run_openmpi(job, Idle::yields_where_cores_are_few); }, kOwnEager},
      {"openmpi-spin", [](const PeerJob& job) { return run_openmpi(job, Idle::spins); }, kOwnEager},
      {"openmpi-eager",
       [](const PeerJob& job) { return run_openmpi(job, Idle::yields_where_cores_are_few, kAllEager); },
       "TCP, nothing waits (btl_tcp_eager_limit)"},
      {"mpich", run_mpich, "UCX, which chooses what waits (UCX_RNDV_THRESH)"},
      {"gloo", run_gloo, "TCP, every body waits"}};
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
