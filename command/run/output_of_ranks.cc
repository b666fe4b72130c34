#include "command/run/output_of_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "command/run/launcher_words.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/process_limits.h"

namespace stretto::command {

namespace {

constexpr std::size_t kMostPending = std::size_t{1} << 18;  // bytes, from which on ranks wait for who reads
constexpr std::size_t kMostOfAPipe = std::size_t{1} << 20;  // bytes that a pipe holds (/proc/sys/fs/pipe-max-size)

}  // namespace

OutputOfRanks::Ends OutputOfRanks::add(const std::string& tag) {
  Ends ends;
  for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
      throw Failure({Errc::io, fmt::format("no pipe for the output of a rank: {}", why_no_process(errno))});
    }
    ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    sources_.push_back({stream, Descriptor(pipe[0]), TaggedLines(tag)});
    (stream == 0 ? ends.out : ends.errors) = Descriptor(pipe[1]);
  }
  return ends;
}

std::vector<pollfd> OutputOfRanks::looked_at() const {
  std::vector<pollfd> looked_at;
  for (const Source& source : sources_) {
    const bool wanted = streams_[goes_to_caller_ ? 0 : source.stream].bytes.size() < kMostPending;
    if (source.from_rank.get() >= 0 && wanted) looked_at.push_back({source.from_rank.get(), POLLIN, 0});
  }
  for (const Stream& stream : streams_) {
    if (!stream.bytes.empty()) looked_at.push_back({stream.fd, POLLOUT, 0});
  }
  return looked_at;
}

void OutputOfRanks::take(Source& source, std::string_view bytes) {
  std::string lines;
  std::string& out = goes_to_caller_ ? lines : stream_of(source).bytes;
  if (bytes.empty()) {
    source.lines.end(out);
  } else {
    source.lines.add(bytes, out);
  }
  if (lines.empty()) return;
  const auto kind = source.stream == 0 ? HostWords::Kind::out : HostWords::Kind::errors;
  put(HostWords{.kind = kind, .words = std::move(lines)}.encoded() + '\n');
}

bool OutputOfRanks::read(Source& source) {
  const Stream& stream = stream_of(source);
  if (!stream.is_open && !may_be_lost_) source.from_rank.close();
  if (source.from_rank.get() < 0 || stream.bytes.size() >= kMostPending) return false;
  std::array<char, 65536> buffer;
  const ssize_t n = ::read(source.from_rank.get(), buffer.data(), buffer.size());
  if (n < 0) return false;
  take(source, {buffer.data(), static_cast<std::size_t>(n)});
  if (n == 0) source.from_rank.close();
  return true;
}

void OutputOfRanks::close(Stream& stream) {
  stream.is_open = false;
  stream.bytes.clear();
}

void OutputOfRanks::drop() {
  for (Stream& stream : streams_) close(stream);
}

bool OutputOfRanks::write(Stream& stream) {
  std::size_t written = 0;
  while (written < stream.bytes.size()) {
    // So many bytes a pipe takes at once when it is ready for any.
    pollfd ready{stream.fd, POLLOUT, 0};
    if (::poll(&ready, 1, 0) != 1) break;
    const ssize_t n = ::write(stream.fd, stream.bytes.data() + written,
                              std::min<std::size_t>(stream.bytes.size() - written, PIPE_BUF));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) break;
    if (n < 0) {
      close(stream);
      return true;
    }
    written += static_cast<std::size_t>(n);
  }
  stream.bytes.erase(0, written);
  return written > 0;
}

bool OutputOfRanks::pass_on() {
  bool any = false;
  for (Source& source : sources_) any |= read(source);
  for (Stream& stream : streams_) any |= write(stream);
  return any;
}

bool OutputOfRanks::pending() const {
  return std::ranges::any_of(streams_, [](const Stream& stream) { return !stream.bytes.empty(); });
}

void OutputOfRanks::end() {
  for (Source& source : sources_) {
    std::array<char, 65536> buffer;
    for (std::size_t taken = 0; source.from_rank.get() >= 0 && taken < kMostOfAPipe;) {
      const ssize_t n = ::read(source.from_rank.get(), buffer.data(), buffer.size());
      if (n <= 0) break;
      take(source, {buffer.data(), static_cast<std::size_t>(n)});
      taken += static_cast<std::size_t>(n);
    }
    take(source, {});
    source.from_rank.close();
    if (Stream& stream = stream_of(source); !stream.is_open) stream.bytes.clear();
  }
}

void OutputOfRanks::put(std::string_view bytes, bool to_errors) {
  Stream& stream = streams_[to_errors && !goes_to_caller_ ? 1 : 0];
  if (stream.is_open) stream.bytes += bytes;
}

bool OutputOfRanks::has_room() const {
  return std::ranges::all_of(streams_, [](const Stream& stream) { return stream.bytes.size() < kMostPending; });
}

bool OutputOfRanks::is_read() const {
  return std::ranges::all_of(streams_, &Stream::is_open);
}

}  // namespace stretto::command
