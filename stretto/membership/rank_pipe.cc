#include "stretto/membership/rank_pipe.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace stretto {
namespace {

/// Stands before each message, so that half a message is told from a whole one.
struct Head {
  std::uint64_t bytes;
  RankMessage::Kind kind;
};

}  // namespace

void write_message(int fd, RankMessage::Kind kind, std::string_view text) {
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
