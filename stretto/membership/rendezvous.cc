#include "stretto/membership/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "stretto/base/description.h"
#include "stretto/base/words.h"
#include "stretto/engine/driver.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMagic = 0x3165'6d6f'636c'6577;  // "welcome1"
constexpr Duration kTryEvery = 10ms;                     // to reach rank 0 that is not there yet
constexpr int kTriesToReach = 20;                        // who has its address, until it is taken for dead
constexpr Duration kForTheLate = 2s;                     // until rank 0 gives up telling what went wrong
constexpr Duration kGrace = 5s;  // rank 0 keeps the time; the others wait so much longer for its word

/// What a rank says when it comes.
struct Greeting {
  std::uint64_t magic = kMagic;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::array<char, 64> version{};
};

/// What rank 0 says to a rank, and a rank to rank 0 in return.
struct Word {
  enum class Kind : std::uint32_t {
    come,     ///< to a rank, with the descriptors: enter the memory
    entered,  ///< from a rank
    go,       ///< to a rank: all have entered
    refused,  ///< to a rank: nothing comes of it
  };
  std::uint64_t magic = kMagic;
  Kind kind = Kind::come;
  Errc code = Errc::bad_input;  // refused
  std::int32_t about = -1;      // refused: Error::rank
  std::array<char, 480> text{};
};

void put(std::span<char> to, const std::string& text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), to.size() - 1));
}

/// The address of a job's meeting place.
struct Address {
  sockaddr_un address{};
  socklen_t bytes = 0;
  bool has_file = false;

  explicit Address(const RendezvousOptions& options) {
    address.sun_family = AF_UNIX;
    char name[64];
    const std::uint64_t hash = hash_of(text(getuid(), '\n', options.job));
    std::snprintf(name, sizeof(name), "stretto-%016llx", static_cast<unsigned long long>(hash));
    has_file = !options.folder.empty();
    // The first byte of a name in the abstract namespace is 0.
    const std::string path = has_file ? options.folder + '/' + name : std::string(1, '\0') + name;
    if (path.size() >= sizeof(address.sun_path)) {
      throw UsageError(text("STRETTO_RENDEZVOUS_DIR=", options.folder, ": the name of a socket there has ", path.size(),
                            " characters, of which the system takes ", sizeof(address.sun_path) - 1));
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (has_file ? 1 : 0));
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  std::string to_string() const { return has_file ? std::string(address.sun_path) : text('@', address.sun_path + 1); }
};

Descriptor new_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Error system_error(const Address& address, const char* call) {
  return {Errc::io, text("the ranks cannot meet at ", address.to_string(), ": ", call, ": ", std::strerror(errno))};
}

/// The process at the other end.
ucred process_at(const Descriptor& socket) {
  ucred process{};
  socklen_t bytes = sizeof(process);
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &process, &bytes);
  return process;
}

bool send_word(const Descriptor& socket, const Word& word, std::span<const int> descriptors = {}) {
  iovec part{const_cast<Word*>(&word), sizeof(word)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(socket.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(word));
}

struct Heard {
  enum class Kind { nothing, word, ended };
  Kind kind = Kind::nothing;
  Word word;
  std::vector<Descriptor> descriptors;
};

Heard hear_word(const Descriptor& socket) {
  Heard heard;
  iovec part{&heard.word, sizeof(heard.word)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t bytes = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  // Where the other end is closed with something unread, that is heard of before its last word.
  if (bytes < 0 && errno == ECONNRESET) bytes = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return heard;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    std::array<int, 2> descriptors{-1, -1};
    std::memcpy(descriptors.data(), CMSG_DATA(head), std::min<std::size_t>(head->cmsg_len - CMSG_LEN(0), 8));
    for (const int descriptor : descriptors) {
      if (descriptor >= 0) heard.descriptors.emplace_back(descriptor);
    }
  }
  const bool whole = bytes == static_cast<ssize_t>(sizeof(Word)) && heard.word.magic == kMagic;
  heard.kind = whole ? Heard::Kind::word : Heard::Kind::ended;  // what is no word of ours ends it, too
  heard.word.text.back() = '\0';
  return heard;
}

/// How many milliseconds poll() may wait until `when`.
int poll_time(TimePoint now, TimePoint when) {
  return static_cast<int>(std::clamp<Duration>(when - now + 999us, 0ms, 1s) / 1ms);
}

/// Rank 0's part.
class RankZero {
 public:
  explicit RankZero(const RendezvousOptions& options) : options_(options), address_(options), look_(options.look) {}
  ~RankZero() {
    if (listens_ && address_.has_file) unlink(address_.address.sun_path);
  }
  RankZero(const RankZero&) = delete;
  RankZero& operator=(const RankZero&) = delete;

  Result<Rendezvous> run();

 private:
  struct Guest {
    Descriptor socket;
    ucred process{};
    int rank = -1;  // not known yet
    bool entered = false;
    RankPipe pipe;
  };

  Result<void> listen();
  Error taken() const;
  /// Lets in who stands at the door.
  void admit();
  /// Reads a guest's greeting, or that it has entered.
  Result<void> attend(Guest& guest);
  Result<void> greet(Guest& guest, const Greeting& greeting);
  /// Attends to guests until `all` of the job's other ranks have done something.
  Result<void> wait_for(int (RankZero::*count)() const, const char* what);
  Result<void> wait_once();
  Result<void> hand_out(const JobMemory& memory);
  int greeted() const {
    return count([](const Guest& guest) { return guest.rank >= 0; });
  }
  int entered() const {
    return count([](const Guest& guest) { return guest.entered; });
  }
  template <class Is>
  int count(Is is) const {
    return static_cast<int>(std::ranges::count_if(guests_, is));
  }
  /// Tells all who have come, and for a while those who come later.
  Error refused(Error why);

  const RendezvousOptions& options_;
  const Address address_;
  const SteadyClock clock_;
  const TimePoint deadline_ = clock_.now() + options_.timeout;
  Look look_;
  Descriptor door_;
  bool listens_ = false;
  std::vector<Guest> guests_;
};

Result<Rendezvous> RankZero::run() {
  if (auto listening = listen(); !listening) return listening.error();
  if (auto come = wait_for(&RankZero::greeted, "come"); !come) return refused(come.error());
  auto memory = JobMemory::create(options_.ranks, options_.extra_bytes);
  if (!memory) return refused(memory.error());
  memory->enter(0, getpid());
  if (auto handed = hand_out(*memory); !handed) return refused(handed.error());
  if (auto in = wait_for(&RankZero::entered, "entered"); !in) return refused(in.error());
  Rendezvous meeting{std::move(*memory), Descriptor(), {}};
  std::ranges::sort(guests_, {}, &Guest::rank);
  for (Guest& guest : guests_) {
    send_word(guest.socket, {.kind = Word::Kind::go});
    meeting.from_others.push_back(std::move(guest.pipe));
  }
  return meeting;
}

Result<void> RankZero::listen() {
  bool removed = false;
  for (int tries = 0;; ++tries) {
    door_ = new_socket();
    if (door_.get() < 0) return system_error(address_, "socket");
    if (bind(door_.get(), address_.get(), address_.bytes) == 0) break;
    if (errno != EADDRINUSE) return system_error(address_, "bind");
    const Descriptor knock = new_socket();
    const bool reached = connect(knock.get(), address_.get(), address_.bytes) == 0;
    if (!reached && errno == ECONNREFUSED) {
      if (tries < kTriesToReach) {  // a process may be there that does not listen yet
        std::this_thread::sleep_for(kTryEvery);
        continue;
      }
      // A file without a process behind it is what a killed job has left.
      if (address_.has_file && !std::exchange(removed, true)) {
        unlink(address_.address.sun_path);
        continue;
      }
    }
    const ucred process = process_at(knock);
    const std::string who =
        reached ? text("process ", process.pid, " of user ", process.uid) : std::string("another process");
    return Error{Errc::bad_input, text(who, " is rank 0 of this job already, at ", address_.to_string(),
                                       ": two processes have rank 0, or two jobs the same name (STRETTO_JOB)")};
  }
  listens_ = true;
  if (address_.has_file) chmod(address_.address.sun_path, S_IRUSR | S_IWUSR);
  if (::listen(door_.get(), JobMemory::kMaxRanks) != 0) return system_error(address_, "listen");
  return {};
}

void RankZero::admit() {
  while (true) {
    Descriptor socket(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) return;
    const ucred process = process_at(socket);
    if (process.uid == geteuid()) guests_.push_back({.socket = std::move(socket), .process = process});
  }
}

Result<void> RankZero::attend(Guest& guest) {
  if (guest.rank < 0) {
    Greeting greeting;
    const ssize_t bytes = recv(guest.socket.get(), &greeting, sizeof(greeting), 0);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (bytes == static_cast<ssize_t>(sizeof(greeting)) && greeting.magic == kMagic) return greet(guest, greeting);
    guest.socket.close();  // it is none of us
    return {};
  }
  const Heard heard = hear_word(guest.socket);
  if (heard.kind == Heard::Kind::ended) {
    return Error{Errc::lost_peer, text("rank ", guest.rank, " has ended while the ranks met"), guest.rank};
  }
  guest.entered |= heard.kind == Heard::Kind::word && heard.word.kind == Word::Kind::entered;
  return {};
}

Result<void> RankZero::greet(Guest& guest, const Greeting& greeting) {
  const auto differs = [&](const auto& theirs, const auto& ours) {
    return Error{Errc::bad_input, text("rank ", greeting.rank, " has ", theirs, ", rank 0 ", ours), greeting.rank};
  };
  const std::string version(greeting.version.data(), strnlen(greeting.version.data(), greeting.version.size()));
  const std::string own = options_.version.substr(0, greeting.version.size() - 1);
  if (version != own) return differs(version, own);
  if (greeting.ranks != options_.ranks) return differs(text(greeting.ranks, " ranks in its job"), options_.ranks);
  if (greeting.rank == 0) return differs(text("come a second time, as process ", guest.process.pid), "too");
  for (const Guest& other : guests_) {
    if (other.rank == greeting.rank) {
      return Error{Errc::bad_input,
                   text("two processes are rank ", greeting.rank, ": ", other.process.pid, " and ", guest.process.pid),
                   greeting.rank};
    }
  }
  guest.rank = greeting.rank;
  return {};
}

Result<void> RankZero::wait_once() {
  std::vector<pollfd> looked_at{{door_.get(), POLLIN, 0}};
  for (const Guest& guest : guests_) looked_at.push_back({guest.socket.get(), POLLIN, 0});
  poll(looked_at.data(), looked_at.size(), poll_time(clock_.now(), std::min(deadline_, look_.due())));
  look_.at(clock_.now());
  admit();
  for (Guest& guest : guests_) {
    if (auto attended = attend(guest); !attended) return attended;
  }
  std::erase_if(guests_, [](const Guest& guest) { return guest.socket.get() < 0; });
  return {};
}

Result<void> RankZero::wait_for(int (RankZero::*count)() const, const char* what) {
  while ((this->*count)() < options_.ranks - 1) {
    const bool late = clock_.now() >= deadline_;
    if (auto attended = wait_once(); !attended) return attended;
    // Rank 0 may have been held up itself: a rank that has greeted it meanwhile is here.
    if (late && (this->*count)() < options_.ranks - 1) {
      std::vector<int> missing;
      for (int rank = 1; rank < options_.ranks; ++rank) {
        if (std::ranges::find(guests_, rank, &Guest::rank) == guests_.end()) missing.push_back(rank);
      }
      const bool all_here = missing.empty();  // but some have not gone on
      return Error{Errc::timeout,
                   text(all_here ? "the ranks" : ranks_in_words(missing), missing.size() == 1 ? " has" : " have",
                        " not ", what, " within ", seconds(options_.timeout), " s"),
                   missing.size() == 1 ? missing[0] : -1};
    }
  }
  return {};
}

Result<void> RankZero::hand_out(const JobMemory& memory) {
  for (Guest& guest : guests_) {
    std::array<int, 2> ends{};
    if (guest.rank < 0) continue;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(address_, "pipe");
    guest.pipe = RankPipe(Descriptor(ends[0]));
    const Descriptor theirs(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    const std::array<int, 2> given{memory.fd(), theirs.get()};
    send_word(guest.socket, {.kind = Word::Kind::come}, given);  // who is not there any more is noticed later
  }
  std::erase_if(guests_, [](const Guest& guest) { return guest.rank < 0; });
  return {};
}

Error RankZero::refused(Error why) {
  Word word{.kind = Word::Kind::refused, .code = why.code, .about = why.rank};
  put(word.text, why.message);
  std::size_t told = 0;
  const TimePoint end = clock_.now() + (why.code == Errc::timeout ? Duration(0) : kForTheLate);
  while (true) {
    for (; told < guests_.size(); ++told) send_word(guests_[told].socket, word);
    if (told + 1 >= static_cast<std::size_t>(options_.ranks) || clock_.now() >= end) return why;
    pollfd door{door_.get(), POLLIN, 0};
    poll(&door, 1, poll_time(clock_.now(), end));
    admit();
  }
}

/// The part of every other rank.
class Visitor {
 public:
  explicit Visitor(const RendezvousOptions& options) : options_(options), address_(options), look_(options.look) {}
  Result<Rendezvous> run();

 private:
  Result<void> connect();
  /// Rank 0's next word.
  Result<Heard> hear();
  std::string missing() const {
    return text("rank 0 has not come within ", seconds(options_.timeout), " s (it opens ", address_.to_string(), ")");
  }

  const RendezvousOptions& options_;
  const Address address_;
  const SteadyClock clock_;
  const TimePoint deadline_ = clock_.now() + options_.timeout;
  Look look_;
  Descriptor socket_;
};

Result<void> Visitor::connect() {
  while (true) {
    socket_ = new_socket();
    if (socket_.get() < 0) return system_error(address_, "socket");
    if (::connect(socket_.get(), address_.get(), address_.bytes) == 0) break;
    const bool not_there = errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN;
    if (!not_there) return system_error(address_, "connect");
    if (clock_.now() >= deadline_) return Error{Errc::timeout, missing(), 0};
    std::this_thread::sleep_for(kTryEvery);
    look_.at(clock_.now());
  }
  if (const ucred process = process_at(socket_); process.uid != geteuid()) {
    return Error{Errc::bad_input, text("at ", address_.to_string(), ", where the ranks meet, is process ", process.pid,
                                       " of another user (", process.uid,
                                       "); STRETTO_JOB gives this job a name of "
                                       "its own")};
  }
  Greeting greeting{.rank = options_.rank, .ranks = options_.ranks};
  put(greeting.version, options_.version);
  send(socket_.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL);
  return {};
}

Result<Heard> Visitor::hear() {
  while (true) {
    pollfd looked_at{socket_.get(), POLLIN, 0};
    poll(&looked_at, 1, poll_time(clock_.now(), std::min(deadline_ + kGrace, look_.due())));
    look_.at(clock_.now());
    Heard heard = hear_word(socket_);
    if (heard.kind == Heard::Kind::ended) {
      return Error{Errc::lost_peer, "rank 0 has ended while the ranks met", 0};
    }
    if (heard.kind == Heard::Kind::word) {
      if (heard.word.kind != Word::Kind::refused) return heard;
      return Error{heard.word.code, heard.word.text.data(), heard.word.about};
    }
    if (clock_.now() >= deadline_ + kGrace) return Error{Errc::timeout, missing(), 0};
  }
}

Result<Rendezvous> Visitor::run() {
  if (auto connected = connect(); !connected) return connected.error();
  auto come = hear();
  if (!come) return come.error();
  if (come->descriptors.size() != 2) return Error{Errc::io, "rank 0 cannot hand out the memory of the job"};
  auto memory = JobMemory::attach(come->descriptors[0].get());
  if (!memory) return memory.error();
  memory->enter(options_.rank, getpid());
  send_word(socket_, {.kind = Word::Kind::entered});
  if (auto go = hear(); !go) return go.error();
  return Rendezvous{std::move(*memory), std::move(come->descriptors[1]), {}};
}

}  // namespace

Result<Rendezvous> meet(const RendezvousOptions& options) {
  if (options.ranks < 1 || options.ranks > JobMemory::kMaxRanks) {
    throw UsageError(text(options.ranks, " ranks: a job on one host has 1 to ", JobMemory::kMaxRanks));
  }
  if (options.rank < 0 || options.rank >= options.ranks) {
    throw UsageError(text("rank ", options.rank, " of ", options.ranks, ": expected 0 to ", options.ranks - 1));
  }
  if (options.rank == 0) return RankZero(options).run();
  return Visitor(options).run();
}

}  // namespace stretto
