#include "stretto/membership/hosts/bulletins/store_bulletin.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "stretto/base/words.h"

namespace stretto {
namespace {

// torch/csrc/distributed/c10d/TCPStoreBackend.hpp. Numbers are little-endian.
enum Query : char { kValidate = 0, kSet = 1, kGet = 3, kCheck = 5 };
constexpr std::uint32_t kMagic = 0x3C85'F7CE;
constexpr char kThere = 0, kNotThere = 1;
const std::string kKey = "/stretto/meeting";

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string word(const std::string& text) {
  return number(text.size(), 8) + text;
}

}  // namespace

StoreBulletin::StoreBulletin(int rank, int ranks, std::string host, std::string port)
    : Bulletin(rank, ranks), host_(std::move(host)), port_(std::move(port)) {}

Error StoreBulletin::broken(Errc errc, const std::string& how) {
  socket_.close();
  return {errc, text("the store of torchrun at ", host_, ':', port_, ": ", how)};
}

Result<void> StoreBulletin::connect() {
  if (socket_.get() >= 0) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int wrong = ::getaddrinfo(host_.c_str(), port_.c_str(), &hints, &found); wrong != 0) {
    return broken(Errc::unavailable, ::gai_strerror(wrong));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    socket_ = Descriptor(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    constexpr timeval kLongest{.tv_sec = kLongestCall.count(), .tv_usec = 0};
    for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO}) {  // connect() is a matter of sending
      (void)::setsockopt(socket_.get(), SOL_SOCKET, option, &kLongest, sizeof kLongest);
    }
    if (::connect(socket_.get(), one->ai_addr, one->ai_addrlen) == 0) {
      return send(number(kValidate, 1) + number(kMagic, 4));
    }
    error = errno == EINPROGRESS ? ETIMEDOUT : errno;
  }
  return broken(Errc::unavailable, std::system_category().message(error));
}

Result<void> StoreBulletin::send(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t more = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return broken(Errc::unavailable, std::system_category().message(errno));
    sent += static_cast<std::size_t>(more);
  }
  return {};
}

Result<std::string> StoreBulletin::receive(std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t got = 0; got < bytes;) {
    const ssize_t more = ::recv(socket_.get(), out.data() + got, bytes - got, 0);
    if (more < 0 && errno == EINTR) continue;
    if (more == 0) return broken(Errc::unavailable, "it has closed the connection");
    if (more < 0) {
      return broken(Errc::unavailable, errno == EAGAIN ? "it does not answer" : std::system_category().message(errno));
    }
    got += static_cast<std::size_t>(more);
  }
  return out;
}

Result<void> StoreBulletin::publish(const std::string& words) {
  if (auto there = connect(); !there) return there;
  return send(number(kSet, 1) + word(kKey) + word(words));
}

Result<std::string> StoreBulletin::look_up() {
  if (auto there = connect(); !there) return there.error();
  if (auto asked = send(number(kCheck, 1) + number(1, 8) + word(kKey)); !asked) return asked.error();
  auto there = receive(1);
  if (!there) return there;
  if ((*there)[0] == kNotThere) return std::string();
  if ((*there)[0] != kThere) return broken(Errc::io, "it answers in an unknown way");
  if (auto asked = send(number(kGet, 1) + word(kKey)); !asked) return asked.error();
  auto length = receive(8);
  if (!length) return length;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, length->data(), sizeof bytes);
  if (bytes > kMostBytes) return broken(Errc::io, text("it has an address of ", bytes, " bytes"));
  return receive(bytes);
}

}  // namespace stretto
