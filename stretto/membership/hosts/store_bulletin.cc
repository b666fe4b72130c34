#include "stretto/membership/hosts/store_bulletin.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/engine/driver.h"

namespace stretto {
namespace {

// torch/csrc/distributed/c10d/TCPStoreBackend.hpp. Numbers are little-endian.
enum Query : char { kValidate = 0, kSet = 1, kGet = 3, kWait = 6 };
constexpr std::uint32_t kMagic = 0x3C85'F7CE;
constexpr char kStopWaiting = 0;
constexpr std::uint64_t kLongestWords = 1000;  // what may have been published
const std::string kKey = "/stretto/meeting";

constexpr std::chrono::milliseconds kTryStoreEvery{100};

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string word(const std::string& text) {
  return number(text.size(), 8) + text;
}

}  // namespace

StoreBulletin::StoreBulletin(int rank, int ranks, std::string host, std::string port, std::function<void()> look)
    : rank_(rank), ranks_(ranks), host_(std::move(host)), port_(std::move(port)), look_(std::move(look)) {}

Error StoreBulletin::broken(const std::string& how) const {
  return {Errc::io, text("the store of torchrun at ", host_, ':', port_, ": ", how)};
}

Result<void> StoreBulletin::connect(TimePoint deadline) {
  if (socket_.get() >= 0) return {};
  std::string tried = "nobody was tried";
  while (clock_.now() < deadline) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int wrong = ::getaddrinfo(host_.c_str(), port_.c_str(), &hints, &found); wrong != 0) {
      tried = ::gai_strerror(wrong);
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      socket_ = Descriptor(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(socket_.get(), one->ai_addr, one->ai_addrlen) == 0) {
        return send(number(kValidate, 1) + number(kMagic, 4));
      }
      tried = std::system_category().message(errno);
      socket_.close();
    }
    std::this_thread::sleep_for(kTryStoreEvery);
    if (look_) look_();
  }
  return broken(tried);
}

Result<void> StoreBulletin::send(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t more = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return broken(std::system_category().message(errno));
    sent += static_cast<std::size_t>(more);
  }
  return {};
}

Result<std::string> StoreBulletin::receive(std::size_t bytes, TimePoint deadline) {
  std::string out(bytes, '\0');
  Look look(look_);
  for (std::size_t got = 0; got < bytes;) {
    pollfd there{socket_.get(), POLLIN, 0};
    ::poll(&there, 1, static_cast<int>(kTryStoreEvery.count()));
    const TimePoint now = clock_.now();
    look.at(now);
    const ssize_t more = ::recv(socket_.get(), out.data() + got, bytes - got, MSG_DONTWAIT);
    if (more == 0) return broken("it has closed the connection");
    if (more > 0) {
      got += static_cast<std::size_t>(more);
    } else if (errno != EAGAIN && errno != EINTR) {
      return broken(std::system_category().message(errno));
    } else if (now >= deadline) {
      return Error{Errc::timeout, text("rank 0 has left no address in the store of torchrun at ", host_, ':', port_),
                   0};
    }
  }
  return out;
}

Result<void> StoreBulletin::publish(const std::string& words) {
  if (auto there = connect(clock_.now() + Duration(std::chrono::minutes(1))); !there) return there;
  return send(number(kSet, 1) + word(kKey) + word(words));
}

Result<std::string> StoreBulletin::look_up(TimePoint deadline) {
  if (auto there = connect(deadline); !there) return there.error();
  if (auto asked = send(number(kWait, 1) + number(1, 8) + word(kKey)); !asked) return asked.error();
  const auto over = receive(1, deadline);
  if (!over) return over.error();
  if ((*over)[0] != kStopWaiting) return broken("it answers in an unknown way");
  if (auto asked = send(number(kGet, 1) + word(kKey)); !asked) return asked.error();
  const auto length = receive(8, deadline);
  if (!length) return length.error();
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, length->data(), sizeof bytes);
  if (bytes > kLongestWords) return broken(text("it has an address of ", bytes, " bytes"));
  return receive(bytes, deadline);
}

}  // namespace stretto
