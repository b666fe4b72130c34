#include "command/allreduce_peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "command/process.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;
using Times = std::vector<AllreduceTime>;
using Words = std::vector<std::string>;

int num_cores() {
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

/// Runs `words`, the time and the sizes.
Result<Times> run_peer(Words words, const Words& environment, Duration time, std::span<const std::uint64_t> sizes) {
  words.push_back(fmt::format("{}", seconds(time)));
  for (const std::uint64_t bytes : sizes) words.push_back(std::to_string(bytes));
  // Warm-up calls come before what is timed, and starting takes a while.
  const Duration limit = 60s + 20 * time * static_cast<int>(sizes.size());
  const auto text = run_program(words, environment, limit);
  if (!text) return text.error();
  Times times = parse_allreduce_times(*text);
  if (times.size() != sizes.size()) {
    return Error{Errc::aborted, fmt::format("{} printed {} sizes of {}", words.front(), times.size(), sizes.size())};
  }
  return times;
}

Error missing(const std::string& what, const std::string& package) {
  return {Errc::unavailable, fmt::format("{} is missing (package {})", what, package)};
}

Result<Times> run_openmpi(int ranks, Duration time, std::span<const std::uint64_t> sizes) {
  const std::string mpirun = find_on_path("mpirun.openmpi");
  if (mpirun.empty()) return missing("mpirun.openmpi", "openmpi-bin");
  const std::string program = find_companion("stretto-openmpi-allreduce");
  if (program.empty()) return missing("stretto-openmpi-allreduce", "libopenmpi-dev, at build time");
  Words words = {mpirun, "--oversubscribe", "--mca", "btl", "self,vader"};
  // What its manual advises where ranks outnumber cores.
  if (ranks > num_cores()) words.insert(words.end(), {"--mca", "mpi_yield_when_idle", "1"});
  words.insert(words.end(), {"-n", std::to_string(ranks), program});
  return run_peer(words, {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}, time, sizes);
}

Result<Times> run_mpich(int ranks, Duration time, std::span<const std::uint64_t> sizes) {
  const std::string mpirun = find_on_path("mpirun.mpich");
  if (mpirun.empty()) return missing("mpirun.mpich", "mpich");
  const std::string program = find_companion("stretto-mpich-allreduce");
  if (program.empty()) return missing("stretto-mpich-allreduce", "libmpich-dev, at build time");
  return run_peer({mpirun, "-n", std::to_string(ranks), program}, {}, time, sizes);
}

Result<Times> run_gloo(int ranks, Duration time, std::span<const std::uint64_t> sizes) {
  const std::string script = find_companion("gloo_allreduce.py");
  const std::string python = find_python();
  if (script.empty()) return missing("gloo_allreduce.py", "this one");
  if (python.empty()) return missing("a Python with torch.distributed", "torch in .venv");
  return run_peer({python, "-B", script, std::to_string(ranks)}, {"GLOO_SOCKET_IFNAME=lo"}, time, sizes);
}

}  // namespace

std::vector<AllreduceTime> parse_allreduce_times(const std::string& text) {
  std::vector<AllreduceTime> times;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    AllreduceTime time;
    if (fields >> time.bytes >> time.calls >> time.microseconds) times.push_back(time);
  }
  return times;
}

const std::vector<AllreducePeer>& allreduce_peers() {
  static const std::vector<AllreducePeer> peers = {{"openmpi", run_openmpi}, {"mpich", run_mpich}, {"gloo", run_gloo}};
  return peers;
}

}  // namespace stretto::command
