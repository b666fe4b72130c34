#include "stretto/membership/rank_end.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <new>
#include <thread>
#include <utility>

#include "stretto/base/words.h"

namespace stretto {
namespace {

/// Stands before each message, so that half a message is told from a whole one.
struct Head {
  std::uint64_t bytes;
  RankMessage::Kind kind;
};

/// While it lives this thread gets no SIGPIPE for what it writes, and none that came meanwhile stays behind.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

/// So long a rank that ends because of another gives that one to say why.
constexpr std::chrono::seconds kTimeForTheCause{3};
/// And one that ends because another is lost the others, to hear of that one before they hear of its own end.
constexpr std::chrono::seconds kTimeForTheNews{1};

/// What the handler of `new` does, which takes no argument. Written before the handler is installed.
std::function<void()> say_no_memory;
int status_without_memory = 1;

[[noreturn]] void no_memory() {
  static std::atomic<bool> first{true};
  if (first.exchange(false)) {
    say_no_memory();
  } else {
    std::this_thread::sleep_for(kTimeForTheCause);  // another thread says it, and ends the process
  }
  _exit(status_without_memory);
}

}  // namespace

void write_message(int fd, RankMessage::Kind kind, std::string_view text) {
  const NoBrokenPipe no_signal;
  Head head{};
  head.bytes = text.size();
  head.kind = kind;
  const std::string_view parts[] = {{reinterpret_cast<const char*>(&head), sizeof(head)}, text};
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const ssize_t n = ::write(fd, part.data(), part.size());
      if (n < 0 && errno != EINTR) return;
      if (n > 0) part.remove_prefix(static_cast<std::size_t>(n));
    }
  }
}

void RankPipe::drain() {
  std::array<char, 65536> buffer;
  while (fd_.get() >= 0) {
    const ssize_t n = ::read(fd_.get(), buffer.data(), buffer.size());
    if (n > 0) bytes_.append(buffer.data(), static_cast<std::size_t>(n));
    if (n == 0) fd_.close();
    if (n < 0 && errno != EINTR) return;
  }
}

std::optional<RankMessage> RankPipe::next() {
  Head head;
  if (bytes_.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, bytes_.data(), sizeof(head));
  if (bytes_.size() - sizeof(head) < head.bytes) return std::nullopt;
  RankMessage message{head.kind, bytes_.substr(sizeof(head), head.bytes)};
  bytes_.erase(0, sizeof(head) + head.bytes);
  return message;
}

int process_status(int status) {
  return status == 0 || (status & 0xff) != 0 ? status & 0xff : 1;
}

RankMessage message_of(const Error& error, int rank) {
  const bool of_another = error.rank >= 0 && error.rank != rank;
  if (of_another && error.code == Errc::lost_peer) return {RankMessage::Kind::loss, error.message};
  if (of_another && error.code == Errc::aborted) return {RankMessage::Kind::consequence, error.message};
  return {RankMessage::Kind::cause, error.message};
}

RankMessage message_of_exception(int rank) {
  const auto said = [rank](const std::string& what) { return text("rank ", rank, ": ", what); };
  try {
    throw;
  } catch (const Failure& failure) {
    return {message_of(failure.error(), rank).kind, said(failure.what())};
  } catch (const std::exception& error) {
    return {RankMessage::Kind::cause, said(json_fault(error))};
  } catch (...) {
    return {RankMessage::Kind::cause, said("threw what is no std::exception")};
  }
}

void tell_why(const RankMessage& why, SharedCounter& told) {
  const bool cause = why.kind == RankMessage::Kind::cause;
  if (why.kind == RankMessage::Kind::consequence) std::this_thread::sleep_for(kTimeForTheCause);
  if (why.kind == RankMessage::Kind::loss) std::this_thread::sleep_for(kTimeForTheNews);
  const bool first = told.fetch_add(1) == 0;
  if (first) std::cerr << text("stretto: ", why.text, "\n") << std::flush;
  if (cause && !first) std::this_thread::sleep_for(kTimeForTheCause);  // for the one that was first, to be heard
}

void end_without_memory(std::function<void()> say, int status) {
  say_no_memory = std::move(say);
  status_without_memory = status;
  std::set_new_handler(no_memory);
}

std::string second_report(int rank) {
  return text("rank ", rank, " reports a second time: RankContext::report() takes one text");
}

}  // namespace stretto
