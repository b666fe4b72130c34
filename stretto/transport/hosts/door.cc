#include "stretto/transport/hosts/door.h"

#include <asio/co_spawn.hpp>
#include <asio/connect.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

using asio::ip::tcp;

constexpr int kMostStrangers = 64;
constexpr std::chrono::minutes kForAWay{2};  // to a host
constexpr std::chrono::seconds kForHello{5};
constexpr std::chrono::milliseconds kTryAgain{100};
constexpr std::chrono::minutes kTellEvery{1};

tcp::endpoint stranger_of(const tcp::socket& socket) {
  asio::error_code ignored;
  return socket.remote_endpoint(ignored);
}

}  // namespace

asio::awaitable<asio::error_code> say_hello(tcp::socket& socket, std::vector<tcp::endpoint> at, Hello hello,
                                            Token token) {
  asio::error_code error;
  co_await asio::async_connect(socket, at, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return error;
  keep_from_children(socket.native_handle());
  const Hello::Bytes bytes = hello.encoded(token);
  co_await asio::async_write(socket, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  co_return error;
}

asio::awaitable<asio::error_code> say_hello_on_a_way(tcp::socket& socket, tcp::endpoint at, Hello hello, Token token,
                                                     std::function<bool()> ended) {
  const SteadyClock clock;
  const TimePoint until = clock.now() + Duration(kForAWay);
  const std::vector<tcp::endpoint> where{at};
  for (asio::steady_timer pause(socket.get_executor());;) {
    const asio::error_code error = co_await say_hello(socket, where, hello, token);
    const bool refused = error == asio::error::connection_refused || error == asio::error::connection_reset;
    if (!error || refused || clock.now() >= until || ended()) co_return error;
    asio::error_code ignored;
    socket.close(ignored);
    pause.expires_after(kTryAgain);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

/// Of the network's thread.
class Door::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, const DoorOptions& options) : io_(io), options_(options), acceptor_(io) { open(); }

  tcp::endpoint endpoint() const { return endpoint_; }
  void begin() {
    asio::co_spawn(
        io_, [self = shared_from_this()] { return self->listen(); }, asio::detached);
  }
  void close() {
    asio::error_code ignored;
    acceptor_.close(ignored);
    closed_ = true;
    receive_.clear();
    waiting_.clear();
  }
  void receive(Hello::Use use, Receive receive) {
    receive_[use] = std::move(receive);
    if (!receive_[use]) return;
    for (auto& [hello, socket] : std::exchange(waiting_[use], {})) receive_[use](hello, std::move(socket));
  }

 private:
  void open();
  /// `why`: of the stranger.
  void refuse(const tcp::endpoint& stranger, const std::string& why);
  /// At most once a minute. Returns whether it has.
  bool tell(const std::string& line);
  asio::awaitable<void> listen();
  asio::awaitable<void> greet(tcp::socket socket);
  void welcome(const Hello& hello, tcp::socket socket) {
    if (closed_) return;
    if (const auto& receive = receive_[hello.use]) return receive(hello, std::move(socket));
    waiting_[hello.use].emplace_back(hello, std::move(socket));
  }

  asio::io_context& io_;
  const DoorOptions options_;
  tcp::acceptor acceptor_;
  tcp::endpoint endpoint_;
  std::map<Hello::Use, Receive> receive_;
  std::map<Hello::Use, std::vector<std::pair<Hello, tcp::socket>>> waiting_;
  int strangers_ = 0;  // being heard
  std::uint64_t refused_ = 0;
  const SteadyClock clock_;
  TimePoint tell_at_ = clock_.now();
  bool closed_ = false;
};

void Door::Impl::open() {
  asio::error_code error;
  for (int port = options_.first_port; port <= std::max(options_.first_port, options_.last_port); ++port) {
    const tcp::endpoint at(options_.address, static_cast<std::uint16_t>(port));
    acceptor_.close(error);
    acceptor_.open(at.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(at, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) break;
  }
  if (error) {
    throw Failure({Errc::unavailable,
                   text("rank ", options_.rank, " cannot listen at ", options_.address.to_string(),
                        options_.first_port == 0 ? ""
                                                 : text(", ports ", options_.first_port, " to ",
                                                        std::max(options_.first_port, options_.last_port)),
                        ": ", error.message()),
                   options_.rank});
  }
  keep_from_children(acceptor_.native_handle());
  endpoint_ = acceptor_.local_endpoint();
}

void Door::Impl::refuse(const tcp::endpoint& stranger, const std::string& why) {
  ++refused_;
  const std::string line = text("rank ", options_.rank, ": connections without a hello of this job: ", refused_,
                                " closed, the last one from ", stranger, ": ", why);
  if (tell(line)) refused_ = 0;
}

bool Door::Impl::tell(const std::string& line) {
  if (closed_ || clock_.now() < tell_at_) return false;
  tell_at_ = clock_.now() + Duration(kTellEvery);
  if (options_.tell) {
    options_.tell(line);
  } else {
    std::fprintf(stderr, "stretto: %s\n", line.c_str());
  }
  return true;
}

asio::awaitable<void> Door::Impl::listen() {
  while (true) {
    asio::error_code error;
    tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (closed_) co_return;
    if (error) {  // no descriptor is left
      tell(text("rank ", options_.rank, " cannot take a connection: ", error.message(), " (ulimit -n)"));
      asio::steady_timer later(io_, kTryAgain);
      co_await later.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (strangers_ >= kMostStrangers) {  // closed here
      refuse(stranger_of(socket), text(kMostStrangers, " others have said nothing yet"));
      continue;
    }
    keep_from_children(socket.native_handle());
    ++strangers_;
    asio::co_spawn(
        io_, [self = shared_from_this(), guest = std::move(socket)]() mutable { return self->greet(std::move(guest)); },
        asio::detached);
  }
}

asio::awaitable<void> Door::Impl::greet(tcp::socket stranger) {
  const auto socket = std::make_shared<tcp::socket>(std::move(stranger));
  const tcp::endpoint from = stranger_of(*socket);
  asio::steady_timer limit(io_, kForHello);
  limit.async_wait([socket](asio::error_code error) {
    asio::error_code ignored;
    if (!error) socket->cancel(ignored);
  });
  Hello::Bytes bytes;
  asio::error_code error;
  const std::size_t read =
      co_await asio::async_read(*socket, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  limit.cancel();
  --strangers_;
  if (error == asio::error::eof && read == 0) co_return;  // it has looked whether there is a way (LinkWatch)
  if (error) co_return refuse(from, "it says no hello");
  const auto hello = Hello::decoded(bytes, options_.token);
  if (!hello) co_return refuse(from, hello.error().message);
  if (hello->to != options_.rank || (hello->use != Hello::Use::meeting && hello->ranks != options_.ranks)) {
    co_return refuse(from, text("it comes to rank ", hello->to, " of ", hello->ranks));
  }
  welcome(*hello, std::move(*socket));
}

Door::Door(NetworkThread& network, const DoorOptions& options)
    : network_(network), impl_(std::make_shared<Impl>(network.io(), options)) {
  network.run([this] { impl_->begin(); });
}

Door::~Door() {
  network_.run([this] { impl_->close(); });
}

tcp::endpoint Door::endpoint() const {
  return impl_->endpoint();
}

void Door::receive(Hello::Use use, Receive receive) {
  network_.run([&] { impl_->receive(use, std::move(receive)); });
}

}  // namespace stretto
