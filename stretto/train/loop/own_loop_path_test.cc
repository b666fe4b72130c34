// The files that a gradient passes between OwnLoop::step() and its sum, by a trace of calls, beside those that
// ARCHITECTURE.md names. For builds that know the lines of the library's sources (the address sanitizer's).

#include <dlfcn.h>
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/testing/half_replica.h"

#ifndef STRETTO_ARCHITECTURE  // where this is read, and not built
#define STRETTO_ARCHITECTURE "ARCHITECTURE.md"
#endif

namespace stretto {
namespace {

constexpr int kFrames = 64;

// Of the rank that this process is.
std::span<std::byte> guarded;  // nobody may read it
void* calls[kFrames];
int num_calls = 0;  // under way when somebody did

void note_who_reads(int) {
  num_calls = ::backtrace(calls, kFrames);
  ::mprotect(guarded.data(), guarded.size(), PROT_READ | PROT_WRITE);
}

void guard(std::span<std::byte> memory) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t skipped = (page - begin % page) % page;
  guarded = memory.subspan(skipped, (memory.size() - skipped) / page * page);
  ::mprotect(guarded.data(), guarded.size(), PROT_NONE);
}

/// The calls under way when rank's gradient was read for the sum, the innermost first, as addresses within the program.
std::string read_for_the_sum(RankContext& context) {
  HalfReplica replica(DataType::float32, 1 << 18, 0.5);
  OwnLoop loop(context, replica,
               {.algorithm = text("eager-quorum:", context.size()), .progress_by = ProgressBy::application},
               {.deposited = [&] { guard(replica.gradient()); }});
  (void)::backtrace(calls, 1);  // loads what it needs, which a handler may not
  struct sigaction reads {};
  reads.sa_handler = note_who_reads;
  ::sigaction(SIGSEGV, &reads, nullptr);
  loop.begin();
  loop.begin_step();
  loop.step(1);
  ::mprotect(guarded.data(), guarded.size(), PROT_READ | PROT_WRITE);
  loop.finish();
  std::string at;
  for (int i = 0; i < num_calls; ++i) {
    Dl_info of{};
    if (::dladdr(calls[i], &of) == 0) continue;
    // A return address is that of what follows the call.
    const auto offset = static_cast<const char*>(calls[i]) - 1 - static_cast<const char*>(of.dli_fbase);
    char hex[32];
    (void)std::snprintf(hex, sizeof hex, " %#tx", offset);
    if (std::string(of.dli_fname).find("_test") != std::string::npos) at += hex;
  }
  return at;
}

/// The sources of the library that these addresses lie in, without ending, each once, the outermost first. What
/// stretto/base has (function references), and this file, are left out.
std::vector<std::string> sources_of(const std::string& addresses) {
  char program[4096];
  const auto length = ::readlink("/proc/self/exe", program, sizeof program);
  const std::string command =
      text("addr2line -i -e ", std::string_view(program, static_cast<std::size_t>(length)), addresses);
  const std::unique_ptr<FILE, int (*)(FILE*)> out(::popen(command.c_str(), "r"), ::pclose);
  std::vector<std::string> sources;
  char line[4096];
  const std::regex source("stretto/(?!base/|train/loop/own_loop_path_test)([a-z_/]+)\\.(h|cc):\\d+");
  while (std::fgets(line, sizeof line, out.get()) != nullptr) {
    std::cmatch found;
    if (std::regex_search(line, found, source) && std::ranges::count(sources, found.str(1)) == 0)
      sources.push_back(found.str(1));
  }
  std::ranges::reverse(sources);
  return sources;
}

/// "train/loop/own_loop → train/job/session → …", up to the end of the block.
std::vector<std::string> sources_in_architecture() {
  std::ifstream file(STRETTO_ARCHITECTURE);
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const auto begin = text.find("train/loop/own_loop →");
  if (begin == std::string::npos) return {};
  std::istringstream block(text.substr(begin, text.find("```", begin) - begin));
  std::vector<std::string> sources;
  for (std::string word; block >> word;) {
    if (word != "→") sources.push_back(word);
  }
  return sources;
}

TEST(OwnLoopPath, IsThatOfTheArchitecture) {
  ::alarm(100);
  const auto job = run_job({.ranks = 2}, [](RankContext& context) {
                     context.report(read_for_the_sum(context));
                     return 0;
                   }).or_throw();
  ASSERT_TRUE(job.ok()) << job.cause;
  std::vector<std::string> walked;
  for (const std::string& addresses : job.reports) {
    auto sources = addresses.empty() ? std::vector<std::string>() : sources_of(addresses);
    if (std::ranges::count(sources, "train/loop/own_loop") != 0) walked = std::move(sources);
  }
  walked.erase(walked.begin(), std::ranges::find(walked, "train/loop/own_loop"));
  ASSERT_THAT(walked, testing::SizeIs(testing::Gt(5u))) << "no rank was seen to sum";
  EXPECT_EQ(walked, sources_in_architecture());
}

}  // namespace
}  // namespace stretto
