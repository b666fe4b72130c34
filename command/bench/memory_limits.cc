#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <thread>

#include "command/bench/limits.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/kernel/combine.h"

namespace stretto::command {

namespace {

constexpr std::uint64_t kFaultBytes = 16 << 20;

// Bytes per nanosecond, which are GB/s, of one pass after the other over this thread's own memory.
template <class Pass>
double rate(std::uint64_t bytes, Duration time, Pass&& pass) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  TimePoint now = begin;
  double passed = 0;
  do {
    pass();
    passed += static_cast<double>(bytes);
    now = clock.now();
  } while (now - begin < time);
  return passed / static_cast<double>((now - begin).count());
}

// The sum of the return values of `work` on that many cores at once. `work` gets a function that returns when all are
// ready, to be called between preparing memory and measuring.
double on_cores(int cores, const std::function<double(const std::function<void()>&)>& work) {
  const std::vector<int> usable = usable_cores();
  std::barrier ready(cores);
  std::vector<double> rates(static_cast<std::size_t>(cores));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    threads.emplace_back([&, i] {
      // Where it may not choose its core it goes without: the rate says so.
      try {
        pin_thread(std::span(usable).subspan(i, 1));
      } catch (const Failure&) {
      }
      rates[i] = work([&ready] { ready.arrive_and_wait(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

Limit copying(int cores, std::uint64_t bytes) {
  return {"memcpy", cores, bytes, "GB/s", [=](Duration time) {
            return on_cores(cores, [&](const std::function<void()>& all_ready) {
              const std::vector<std::byte> source(bytes, std::byte{1});
              std::vector<std::byte> copy(bytes, std::byte{2});
              all_ready();
              return rate(bytes, time, [&] {
                std::memcpy(copy.data(), source.data(), bytes);
                asm volatile("" : : "r"(copy.data()) : "memory");  // each copy has to be made
              });
            });
          }};
}

Limit summing(int cores, std::uint64_t bytes, int num_sources) {
  return {fmt::format("sum of {}", num_sources), cores, bytes, "GB/s", [=](Duration time) {
            return on_cores(cores, [&](const std::function<void()>& all_ready) {
              const std::size_t elements = bytes / sizeof(float) / static_cast<std::size_t>(num_sources);
              const std::vector<std::vector<float>> memory(static_cast<std::size_t>(num_sources),
                                                           std::vector<float>(elements, 1.0f));
              const std::vector<std::span<const float>> sources(memory.begin(), memory.end());
              std::vector<float> sum(elements);
              all_ready();
              return rate(bytes, time, [&] { sum_sources(sum, sources); });
            });
          }};
}

// Nanoseconds a page. Huge pages are kept out of it: ranks share memory page by page.
double fault_in(int flags, Duration time) {
  const SteadyClock clock;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Duration taken{0};
  std::uint64_t pages = 0;
  do {
    void* memory = ::mmap(nullptr, kFaultBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Failure({Errc::unavailable, fmt::format("no memory: {}", std::strerror(errno))});
    ::madvise(memory, kFaultBytes, MADV_NOHUGEPAGE);
    auto* bytes = static_cast<volatile char*>(memory);
    const TimePoint begin = clock.now();
    for (std::size_t i = 0; i < kFaultBytes; i += page) bytes[i] = 1;
    taken += clock.now() - begin;
    pages += kFaultBytes / page;
    ::munmap(memory, kFaultBytes);
  } while (taken < time);
  return static_cast<double>(taken.count()) / static_cast<double>(pages);
}

}  // namespace

std::vector<Limit> memory_limits(std::span<const std::uint64_t> sizes, std::span<const int> sources) {
  std::vector<int> cores = {1};
  if (const int all = static_cast<int>(usable_cores().size()); all > 1) cores.push_back(all);
  std::vector<Limit> out;
  for (const int n : cores) {
    for (const std::uint64_t bytes : sizes) out.push_back(copying(n, bytes));
  }
  for (const int k : sources) {
    for (const int n : cores) {
      for (const std::uint64_t bytes : sizes) out.push_back(summing(n, bytes, k));
    }
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.push_back({"fault private", 1, page, "ns", [](Duration time) { return fault_in(MAP_PRIVATE, time); }});
  out.push_back({"fault shared", 1, page, "ns", [](Duration time) { return fault_in(MAP_SHARED, time); }});
  return out;
}

void sum_sources(std::span<float> out, std::span<const std::span<const float>> sources) {
  std::vector<const std::byte*> bytes;
  for (const std::span<const float> source : sources) bytes.push_back(std::as_bytes(source).data());
  const Combination tree = Combination::tree(static_cast<int>(sources.size()));
  combine(tree, DataType::float32, ReduceOp::sum, std::as_writable_bytes(out).data(), bytes, out.size());
}

}  // namespace stretto::command
