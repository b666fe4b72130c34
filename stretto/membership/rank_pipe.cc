#include "stretto/membership/rank_pipe.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

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

}  // namespace stretto
