#include "stretto/membership/hosts/members/master_line.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/use_future.hpp>
#include <utility>
#include <vector>

#include "stretto/base/version.h"
#include "stretto/membership/hosts/interfaces.h"
#include "stretto/transport/hosts/door.h"

namespace stretto {
namespace {

using asio::ip::tcp;

/// Where a master may listen. Throws Failure for a name that nobody knows.
std::vector<tcp::endpoint> endpoints_of(asio::io_context& io, const std::string& host, std::uint16_t port) {
  std::vector<tcp::endpoint> at;
  if (host.empty()) {
    at.emplace_back(asio::ip::address_v4::loopback(), port);
    const auto own = addresses_of_interfaces({});
    for (const auto& address : own ? *own : std::vector<asio::ip::address>()) at.emplace_back(address, port);
    return at;
  }
  asio::error_code error;
  for (const auto& found : tcp::resolver(io).resolve(host, text(port), error)) at.push_back(found.endpoint());
  if (error) throw Failure({Errc::unavailable, text("the host '", host, "' is not known: ", error.message())});
  return at;
}

}  // namespace

MasterLine::MasterLine(const std::string& host, std::uint16_t port, const Token& token, Hear hear,
                       std::function<void(const Error&)> ended)
    : hear_(std::move(hear)), ended_(std::move(ended)) {
  tcp::socket socket(network_.io());
  const std::vector<tcp::endpoint> at = endpoints_of(network_.io(), host, port);
  const Hello hello{.use = Hello::Use::member, .version = text("stretto ", stretto_version())};
  const asio::error_code error =
      asio::co_spawn(network_.io(), say_hello(socket, at, hello, token), asio::use_future).get();
  if (error) {
    throw Failure({Errc::unavailable, text("the master of the job at ", host.empty() ? "port " : host + ':', port,
                                           " cannot be reached: ", error.message())});
  }
  at_ = socket.remote_endpoint();
  line_ = std::make_shared<Line>(std::move(socket));
  asio::co_spawn(
      network_.io(), [this] { return listen(); }, asio::detached);
}

MasterLine::~MasterLine() {
  network_.run([this] { std::exchange(line_, nullptr)->close(); });  // its socket ends before the network does
}

void MasterLine::write(const ProcessWords& words) {
  asio::dispatch(network_.io(), [this, words] {
    if (line_ != nullptr) line_->write(words);
  });
}

asio::awaitable<void> MasterLine::listen() {
  const std::shared_ptr<Line> line = line_;
  auto words = co_await line->read<MasterWords>();
  for (; words; words = co_await line->read<MasterWords>()) hear_(*this, *words);
  ended_(words.error());
}

}  // namespace stretto
