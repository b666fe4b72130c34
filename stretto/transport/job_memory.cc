#include "stretto/transport/job_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "stretto/base/machine/pages.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/transport/shared_arena.h"

namespace stretto {
namespace {

constexpr std::uint64_t kMagic = 0x3130'6f74'7465'7274;          // "tretto01"
constexpr std::uint64_t kLargestArena = std::uint64_t{1} << 40;  // addresses, not memory

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free, "words in shared memory must not need a lock");

/// A set of `ranks` bits fills whole cache lines.
constexpr std::uint64_t words_a_set(int ranks) {
  return round_up(static_cast<std::uint64_t>(ranks), 64 * kCacheLine / sizeof(Word)) / 64;
}

/// Maps a file where huge pages of it, if there are any, can be mapped as such: at a multiple of their size.
void* map_aligned(int fd, std::uint64_t bytes) {
  void* room = mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return room;
  auto* const begin = static_cast<std::byte*>(room);
  const std::uint64_t skipped =
      round_up(reinterpret_cast<std::uintptr_t>(room), kHugePage) - reinterpret_cast<std::uintptr_t>(room);
  const std::uint64_t whole = round_up(bytes, kPage);
  void* base = mmap(begin + skipped, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  const int reason = errno;
  if (skipped > 0) munmap(begin, skipped);
  const std::uint64_t rest = round_up(bytes + kHugePage, kPage) - skipped - whole;
  if (rest > 0) munmap(begin + skipped + whole, rest);
  if (base == MAP_FAILED) munmap(begin + skipped, whole);
  errno = reason;
  return base;
}

std::uint64_t pack(const RankFate& fate) {
  return static_cast<std::uint64_t>(fate.kind) | std::uint64_t{fate.order} << 8 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(fate.wait_status)) << 32;
}

RankFate unpack(std::uint64_t word) {
  return {static_cast<RankFate::Kind>(word & 0xff), static_cast<int>(word >> 32),
          static_cast<std::uint32_t>(word >> 8) & 0xff'ffff};
}

/// Those that end a process. sigabbrev_np() is younger than C libraries this library still runs with.
constexpr std::pair<int, const char*> kSignals[] = {
    {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},     {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},       {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"},     {SIGUSR2, "SIGUSR2"},
    {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},     {SIGSTKFLT, "SIGSTKFLT"},
    {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"},
    {SIGIO, "SIGIO"},     {SIGPWR, "SIGPWR"},   {SIGSYS, "SIGSYS"}};

std::string name_of_signal(int signal) {
  const auto* known = std::ranges::find(kSignals, signal, &std::pair<int, const char*>::first);
  return known != std::end(kSignals) ? known->second : text("signal ", signal);
}

}  // namespace

std::string RankFate::to_string() const {
  if (kind == Kind::running) return "running";
  if (kind == Kind::left) return "done";
  if (WIFSIGNALED(wait_status)) return text("killed by ", name_of_signal(WTERMSIG(wait_status)));
  return text("ended with exit status ", WEXITSTATUS(wait_status));
}

struct JobMemory::Header {
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;
  std::uint64_t extra_bytes = 0;
  std::uint64_t arena_bytes = 0;
  std::int32_t ranks = 0;
  std::atomic<bool> watched{false};      // before the ranks start
  std::atomic<bool> interrupted{false};  // a flag of its own: orders nothing
  std::atomic<std::uint32_t> num_lost{0};
  alignas(kCacheLine) std::atomic<std::uint32_t> changes_of_fate{0};
  struct alignas(kCacheLine) Counter {
    Word value{0};  // orders nothing (MemoryCounter)
  } counters[kNumCounters];
};

struct JobMemory::RankWords {
  DoorbellWords doorbell;
  alignas(kCacheLine) std::atomic<pid_t> process{0};  // stored (release) by enter(), loaded (acquire) by process()
  Word fate{0};  // stored before changes_of_fate (release), loaded after it (acquire); swapped, so that the first holds
  std::array<char, kLastWords> why{};  // up to a 0; stored before the fate, and read after it
};

struct JobMemory::Layout {
  Layout(int ranks_, std::uint64_t extra_bytes_, std::uint64_t arena_bytes_ = 0)
      : ranks(ranks_), extra_bytes(extra_bytes_), arena_bytes(arena_bytes_) {
    if (ranks < 1 || ranks > kMaxRanks) {
      throw UsageError(text(ranks, " ranks: a job on one host has 1 to ", kMaxRanks));
    }
    const auto n = static_cast<std::uint64_t>(ranks);
    const std::uint64_t num_rings = n * (n - 1);
    ring_bytes = std::bit_floor(std::clamp<std::uint64_t>((256u << 20) / (n * n), 16u << 10, 1u << 20));
    words_at = round_up(sizeof(Header), kCacheLine);
    sets_at = words_at + n * sizeof(RankWords);
    rings_at = sets_at + n * 2 * words_a_set(ranks) * sizeof(Word);
    data_at = round_up(rings_at + num_rings * sizeof(RingWords), kPage);
    extra_at = data_at + num_rings * ring_bytes;
    arena_at = round_up(extra_at + extra_bytes, kPage);
    bytes = arena_at;
  }

  int ranks;
  std::uint64_t extra_bytes, arena_bytes;
  std::uint64_t ring_bytes, words_at, sets_at, rings_at, data_at, extra_at, arena_at, bytes;
};

std::uint64_t JobMemory::bytes_needed(int ranks, std::uint64_t extra_bytes) {
  return Layout(ranks, extra_bytes).bytes;
}

Result<JobMemory> JobMemory::create(int ranks, std::uint64_t extra_bytes) {
  Layout layout(ranks, extra_bytes);
  const MemoryBudget budget = memory_budget();
  if (layout.bytes > budget.bytes) {
    return Error{Errc::unavailable,
                 text("too little shared memory: ", ranks, " ranks need ", format_bytes(layout.bytes), ", there are ",
                      format_bytes(budget.bytes), " (", budget.limit, "); take fewer ranks or raise the limit")};
  }
  // Pages are taken when used: of the arena there may be as much as there is memory.
  layout.arena_bytes = std::min(budget.bytes - layout.bytes, kLargestArena) / kPage * kPage;
  if (layout.arena_bytes < SharedArena::overhead()) layout.arena_bytes = 0;
  const int fd = memfd_create("stretto", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Error{Errc::unavailable, text("no shared memory: memfd_create: ", std::strerror(errno))};
  if (ftruncate(fd, static_cast<off_t>(layout.bytes + layout.arena_bytes)) != 0) {
    const int reason = errno;
    close(fd);
    return Error{Errc::unavailable,
                 text("no ", format_bytes(layout.bytes), " of shared memory: ", std::strerror(reason))};
  }
  // A rank that makes the file shorter would take the memory from under all others, which ends them by SIGBUS.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    const int reason = errno;
    close(fd);
    return Error{Errc::unavailable, text("cannot keep shared memory from shrinking: ", std::strerror(reason))};
  }
  auto memory = map(fd, true, layout);
  if (!memory) return memory;
  Header* header = new (memory->base_) Header;
  header->bytes = layout.bytes;
  header->extra_bytes = extra_bytes;
  header->arena_bytes = memory->arena_bytes_;
  header->ranks = ranks;
  return memory;
}

Result<JobMemory> JobMemory::attach(int fd) {
  const Error wrong{Errc::bad_input, text("descriptor ", fd, " is not the shared memory of a job of this version")};
  struct stat file {};
  if (fstat(fd, &file) != 0 || file.st_size < static_cast<off_t>(sizeof(Header))) return wrong;
  void* at = mmap(nullptr, sizeof(Header), PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return wrong;
  const auto* header = static_cast<const Header*>(at);
  const auto size = static_cast<std::uint64_t>(file.st_size);
  const bool right = header->magic == kMagic && header->bytes <= size && header->arena_bytes == size - header->bytes &&
                     header->ranks >= 1 && header->ranks <= kMaxRanks && header->extra_bytes <= header->bytes;
  const Layout layout(right ? header->ranks : 1, right ? header->extra_bytes : 0, right ? header->arena_bytes : 0);
  const bool same = right && layout.bytes == header->bytes;
  munmap(at, sizeof(Header));
  if (!same) return wrong;
  return map(fd, false, layout);
}

Result<JobMemory> JobMemory::map(int fd, bool own_fd, const Layout& layout) {
  const std::uint64_t bytes = layout.bytes + layout.arena_bytes;
  void* base = map_aligned(fd, bytes);
  if (base == MAP_FAILED) {
    const int reason = errno;
    if (own_fd) close(fd);
    return Error{Errc::unavailable, text("cannot map ", format_bytes(bytes), " of shared memory: ",
                                         std::strerror(reason), "; STRETTO_SHM_LIMIT, in bytes, makes it less")};
  }
  return JobMemory(own_fd ? fd : -1, static_cast<std::byte*>(base), layout);
}

JobMemory::JobMemory(int fd, std::byte* base, const Layout& layout)
    : fd_(fd),
      base_(base),
      ranks_(layout.ranks),
      bytes_(layout.bytes),
      arena_bytes_(layout.arena_bytes),
      ring_bytes_(layout.ring_bytes),
      words_at_(layout.words_at),
      sets_at_(layout.sets_at),
      rings_at_(layout.rings_at),
      data_at_(layout.data_at),
      extra_at_(layout.extra_at),
      arena_at_(layout.arena_at) {}

JobMemory::JobMemory(JobMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      base_(std::exchange(other.base_, nullptr)),
      ranks_(other.ranks_),
      bytes_(other.bytes_),
      arena_bytes_(other.arena_bytes_),
      ring_bytes_(other.ring_bytes_),
      words_at_(other.words_at_),
      sets_at_(other.sets_at_),
      rings_at_(other.rings_at_),
      data_at_(other.data_at_),
      extra_at_(other.extra_at_),
      arena_at_(other.arena_at_) {}

JobMemory::~JobMemory() {
  if (base_ != nullptr) munmap(base_, bytes_ + arena_bytes_);
  if (fd_ >= 0) close(fd_);
}

JobMemory::Header& JobMemory::header() const {
  return *reinterpret_cast<Header*>(base_);
}

JobMemory::RankWords& JobMemory::words_of(int rank) const {
  return reinterpret_cast<RankWords*>(base_ + words_at_)[rank];
}

DoorbellWords& JobMemory::doorbell(int rank) {
  return words_of(rank).doorbell;
}

std::atomic<std::uint64_t>& JobMemory::counter(int index) {
  return header().counters[index].value;
}

std::span<std::byte> JobMemory::extra() {
  return {base_ + extra_at_, header().extra_bytes};
}

std::span<std::byte> JobMemory::arena() {
  return {base_ + arena_at_, arena_bytes_};
}

pid_t JobMemory::process(int rank) const {
  return words_of(rank).process.load(std::memory_order_acquire);
}

void JobMemory::enter(int rank, pid_t process) {
  words_of(rank).process.store(process, std::memory_order_release);
}

RankFate JobMemory::fate(int rank) const {
  return unpack(words_of(rank).fate.load(std::memory_order_acquire));
}

void JobMemory::publish_fate(int rank, const RankFate& fate) {
  std::uint64_t running = 0;
  words_of(rank).fate.compare_exchange_strong(running, pack(fate), std::memory_order_acq_rel);
  // Even if the fate was stored already: the process that stored it may have died before it could ring.
  header().changes_of_fate.fetch_add(1, std::memory_order_acq_rel);
  for (int peer = 0; peer < ranks_; ++peer) Doorbell(doorbell(peer), true).ring();
}

void JobMemory::leave(int rank) {
  publish_fate(rank, {.kind = RankFate::Kind::left});
}

void JobMemory::mark_lost(int rank, int wait_status) {
  const std::uint32_t order = header().num_lost.fetch_add(1, std::memory_order_relaxed);
  publish_fate(rank, {RankFate::Kind::lost, wait_status, order});
}

void JobMemory::say_why(int rank, const std::string& why) {
  auto& words = words_of(rank).why;
  words[why.copy(words.data(), words.size() - 1)] = '\0';
}

std::string JobMemory::why(int rank) const {
  return words_of(rank).why.data();
}

std::uint32_t JobMemory::changes_of_fate() const {
  return header().changes_of_fate.load(std::memory_order_acquire);
}

void JobMemory::set_watched() {
  header().watched.store(true, std::memory_order_relaxed);
}
bool JobMemory::watched() const {
  return header().watched.load(std::memory_order_relaxed);
}
void JobMemory::set_interrupted() {
  header().interrupted.store(true, std::memory_order_relaxed);
}
bool JobMemory::interrupted() const {
  return header().interrupted.load(std::memory_order_relaxed);
}

std::size_t JobMemory::ring_index(int from, int to) const {
  return static_cast<std::size_t>(to) * static_cast<std::size_t>(ranks_ - 1) +
         static_cast<std::size_t>(from < to ? from : from - 1);
}

RingWords& JobMemory::ring_words(int from, int to) {
  return reinterpret_cast<RingWords*>(base_ + rings_at_)[ring_index(from, to)];
}

std::byte* JobMemory::ring_data(int from, int to) {
  return base_ + data_at_ + ring_index(from, to) * ring_bytes_;
}

std::span<std::atomic<std::uint64_t>> JobMemory::peers_with_data(int rank) {
  auto* words = reinterpret_cast<Word*>(base_ + sets_at_) + 2 * words_a_set(ranks_) * static_cast<std::uint64_t>(rank);
  return {words, (static_cast<std::size_t>(ranks_) + 63) / 64};
}

std::span<std::atomic<std::uint64_t>> JobMemory::peers_with_room(int rank) {
  const auto data = peers_with_data(rank);
  return {data.data() + words_a_set(ranks_), data.size()};
}

}  // namespace stretto
