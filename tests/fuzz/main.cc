// Reads mutated inputs until its time is over: whatever a peer or a file says ends in a value or an error of ours, and
// never in an abort, an overflow or a hang. Built with the address and undefined sanitizers, which end the process.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "stretto/base/error.h"
#include "stretto/transport/job_memory.h"
#include "tests/fuzz/mutation.h"
#include "tests/fuzz/targets.h"

// Of the sanitizers' runtime. Declared here, since its header comes with one compiler and clang-tidy reads as another.
extern "C" void __sanitizer_set_death_callback(void (*callback)());  // NOLINT: its name is given

namespace stretto::fuzz {
namespace {

constexpr unsigned kLongestRead = 20;  // seconds for a few inputs, with sanitizers on a loaded machine

/// What is being read, for the message of a process that ends in the middle of it. Of the one thread there is.
struct Reading {
  const char* target = "nothing";
  std::string input;
} reading;

void say_what_is_read() {
  std::fprintf(stderr, "\nfuzz: while reading a %s of %zu bytes:\n", reading.target, reading.input.size());
  for (const char c : reading.input) {
    std::fprintf(stderr, c >= ' ' && c <= '~' && c != '\\' ? "%c" : "\\x%02x", static_cast<unsigned char>(c));
  }
  std::fputc('\n', stderr);
}

[[noreturn]] void end_at(int signal) {
  say_what_is_read();
  std::fprintf(stderr, "fuzz: ended by signal %d (%s)\n", signal,
               signal == SIGALRM ? "took too long" : strsignal(signal));
  _exit(1);
}

bool taken(const Target& target, const std::string& input) {
  reading.input = input;
  try {
    return target.read(input);
  } catch (const UsageError&) {
    return false;
  } catch (const Failure&) {
    return false;
  }
}

/// Returns false where an input that is right was refused: then the target would never get far.
bool run(const Target& target, double seconds, std::uint64_t seed) {
  reading.target = target.name.c_str();
  for (const std::string& input : target.inputs) {
    if (taken(target, input)) continue;
    say_what_is_read();
    std::fprintf(stderr, "fuzz: refused, though it is right\n");
    return false;
  }
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Random random(seed);
  std::uint64_t inputs = 0, refused = 0;
  while (inputs % 64 != 0 || Clock::now() < end) {
    if (inputs % 64 == 0) alarm(kLongestRead);
    refused += taken(target, mutated(target.inputs, random)) ? 0 : 1;
    ++inputs;
  }
  alarm(0);
  std::printf("%-32s %9lu inputs, %5.1f %% refused\n", target.name.c_str(), static_cast<unsigned long>(inputs),
              100.0 * static_cast<double>(refused) / static_cast<double>(inputs));
  std::fflush(stdout);
  return true;
}

int main(double seconds, std::uint64_t seed, bool planted) {
  // In memory, where there is such a folder: a file is written for each input.
  const std::filesystem::path in_memory = "/dev/shm";
  std::error_code unknown;
  const bool there = std::filesystem::is_directory(in_memory, unknown);
  std::string folder = ((there ? in_memory : std::filesystem::temp_directory_path()) / "stretto-fuzz-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  // Little enough that a job's memory is made quickly.
  setenv("STRETTO_SHM_LIMIT", std::to_string(JobMemory::bytes_needed(3, 100) + (1 << 20)).c_str(), 1);
  __sanitizer_set_death_callback(say_what_is_read);
  for (const int signal : {SIGABRT, SIGALRM}) std::signal(signal, end_at);
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  const std::vector<Target> all = planted ? std::vector{planted_overflow()} : targets(folder);
  bool right = true;
  for (const Target& target : all) right &= run(target, seconds / static_cast<double>(all.size()), seed);
  std::filesystem::remove_all(folder);
  return right ? 0 : 1;
}

}  // namespace
}  // namespace stretto::fuzz

/// fuzz SECONDS [SEED] [planted]
int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 60;
  const auto now = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : now;
  return stretto::fuzz::main(seconds, seed, argc > 3 && std::strcmp(argv[3], "planted") == 0);
}
