#include "stretto/membership/hosts/members/master_line.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <utility>
#include <vector>

#include "stretto/base/version.h"
#include "stretto/membership/hosts/interfaces.h"
#include "stretto/transport/hosts/door.h"

namespace stretto {
namespace {

using asio::ip::tcp;

constexpr Duration kToBeReached = std::chrono::seconds(1);  // by another connection, before the next one is tried
constexpr Duration kFirstLook = std::chrono::milliseconds(100);
constexpr int kBeats = 10;       // within the limit
constexpr int kBeatsMissed = 3;  // before another master is looked for

/// Where MasterLineOptions::find says that the master listens; nothing: there is none, or nobody says so.
std::optional<tcp::endpoint> found_by(const MasterLineOptions& options) {
  const auto found = options.find ? options.find() : std::nullopt;
  if (!found) return std::nullopt;
  return tcp::endpoint(asio::ip::make_address(found->first), found->second);
}

/// Where a master may listen. Throws Failure for a name that nobody knows, and where there is no master.
std::vector<tcp::endpoint> endpoints_of(asio::io_context& io, const MasterLineOptions& options) {
  std::vector<tcp::endpoint> at;
  if (options.find) {
    const auto found = found_by(options);
    if (found) return {*found};
    throw Failure({Errc::unavailable, "no launcher has the master of the job now, or etcd does not answer"});
  }
  if (options.host.empty()) {
    at.emplace_back(asio::ip::address_v4::loopback(), options.port);
    const auto own = addresses_of_interfaces({});
    for (const auto& one : own ? *own : std::vector<asio::ip::address>()) at.emplace_back(one, options.port);
    return at;
  }
  asio::error_code error;
  for (const auto& one : tcp::resolver(io).resolve(options.host, text(options.port), error)) {
    at.push_back(one.endpoint());
  }
  if (error) throw Failure({Errc::unavailable, text("the host '", options.host, "' is not known: ", error.message())});
  return at;
}

Hello hello_of_member() {
  return {.use = Hello::Use::member, .version = text("stretto ", stretto_version())};
}

}  // namespace

MasterLine::MasterLine(MasterLineOptions options) : options_(std::move(options)) {
  tcp::socket socket(network_.io());
  const std::vector<tcp::endpoint> at = endpoints_of(network_.io(), options_);
  const asio::error_code error =
      asio::co_spawn(network_.io(), say_hello(socket, at, hello_of_member(), options_.token), asio::use_future).get();
  if (error) {
    throw Failure(
        {Errc::unavailable, text("the master of the job at ", options_.host.empty() ? "port " : options_.host + ':',
                                 at.front().port(), " cannot be reached: ", error.message())});
  }
  at_ = socket.remote_endpoint();
  is_loopback_ = at_.address().is_loopback();
  heard_at_ = clock_.now();
  line_ = std::make_shared<Line>(std::move(socket));
  asio::co_spawn(
      network_.io(), [this] { return listen(line_); }, asio::detached);
  asio::co_spawn(
      network_.io(), [this] { return keep_time(); }, asio::detached);
}

MasterLine::~MasterLine() {
  // Its sockets end before the network does.
  network_.run([this] {
    ended_ = true;
    asio::error_code ignored;
    if (reaching_) reaching_->close(ignored);
    std::exchange(line_, nullptr)->close();
  });
}

void MasterLine::write(const ProcessWords& words) {
  asio::dispatch(network_.io(), [this, words] {
    if (line_ != nullptr) line_->write(words);
  });
}

asio::awaitable<void> MasterLine::listen(std::shared_ptr<Line> line) {
  bool is_masters = false;
  auto words = co_await line->read<MasterWords>();
  for (; words; words = co_await line->read<MasterWords>()) {
    is_masters = was_heard_ = true;
    if (line == line_) heard_at_ = clock_.now();
    gone_since_.reset();
    if (words->kind == MasterWords::Kind::beat) {
      limit_.store(words->limit, std::memory_order_relaxed);
      patience_.store(words->patience, std::memory_order_relaxed);
      has_hosts_.store(words->has_hosts, std::memory_order_relaxed);
    } else {
      options_.hear(*this, *words);
    }
  }
  if (line != line_ || ended_) co_return;
  if (!was_heard_ && words.error().code == Errc::lost_peer) {
    co_return end({Errc::lost_peer, "it has ended the connection without a word, as with another secret"});
  }
  if (!options_.anew || !was_heard_) co_return end(words.error());
  // The kernel may have given it up, or the master, to which this host was silent; or what has taken the connection is
  // no master of the job, or not yet.
  line_is_over_ = true;
  if (options_.over) options_.over();
  if (is_masters) co_return try_again();
  if (is_gone_for_good()) end(words.error());
}

bool MasterLine::is_gone_for_good() {
  if (!gone_since_) gone_since_ = clock_.now();
  return clock_.now() - *gone_since_ >= patience();
}

void MasterLine::try_again() {
  if (!options_.anew || reaching_) return;
  reaching_ = std::make_shared<tcp::socket>(network_.io());
  asio::co_spawn(
      network_.io(), [this] { return reach_again(); }, asio::detached);
}

void MasterLine::end(const Error& why) {
  if (!std::exchange(ended_, true)) options_.ended(why);
}

/// Says that this process is there, so that the kernel of the master's host has something to acknowledge, and sees
/// whether it does.
asio::awaitable<void> MasterLine::keep_time() {
  asio::steady_timer timer(network_.io());
  asio::error_code ignored;
  while (!ended_) {
    timer.expires_after(limit() > Duration::zero() ? limit() / kBeats : kFirstLook);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (ended_ || limit() <= Duration::zero()) continue;
    line_->write(ProcessWords::of(ProcessWords::Kind::beat));
    const bool is_silent = line_is_over_ || line_->is_silent(clock_.now(), limit());
    if (std::exchange(silent_, is_silent) != is_silent && options_.silent) options_.silent(is_silent, limit());
    // A master that has stopped is not silent, since its kernel is there; nor is one that says nothing in doubt.
    if (silent_ || (options_.find && clock_.now() - heard_at_ >= limit() * kBeatsMissed / kBeats)) try_again();
  }
}

/// Tries another connection: an old one, whose kernel waits ever longer between two attempts, hears late that its link
/// is back. A host that refuses is there, and the master is not.
asio::awaitable<void> MasterLine::reach_again() {
  const std::shared_ptr<tcp::socket> socket = reaching_;
  const tcp::endpoint newest = found_by(options_).value_or(at_);
  const bool is_another = newest != at_;
  if (!is_another && !silent_ && !line_is_over_) {
    reaching_.reset();
    co_return;
  }
  asio::steady_timer late(network_.io(), kToBeReached);
  late.async_wait([socket](asio::error_code error) {
    asio::error_code ignored;
    if (!error) socket->close(ignored);
  });
  const std::vector<tcp::endpoint> at(1, newest);
  const Hello hello = hello_of_member();
  const asio::error_code error = co_await say_hello(*socket, at, hello, options_.token);
  late.cancel();
  reaching_.reset();
  if (ended_) co_return;
  if (error == asio::error::connection_refused || (error && limit() <= Duration::zero())) {
    if (is_gone_for_good()) end({Errc::lost_peer, "it has ended"});
    co_return;
  }
  // The kernel repeats its first packet after a second, too: a connection may be there as `late` closes its socket.
  if (error || !socket->is_open() || !(silent_ || line_is_over_ || is_another)) co_return;
  at_ = newest;
  line_is_over_ = false;
  heard_at_ = clock_.now();
  std::exchange(line_, std::make_shared<Line>(std::move(*socket)))->cancel();
  asio::co_spawn(
      network_.io(), [this, line = line_] { return listen(line); }, asio::detached);
  options_.anew(*this);
}

}  // namespace stretto
