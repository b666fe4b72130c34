#include "stretto/membership/hosts/meeting.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/base/machine/host_name.h"
#include "stretto/base/words.h"
#include "stretto/engine/driver.h"
#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/peer_words.h"

namespace stretto {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kTryEvery{100};
constexpr std::chrono::seconds kTellAfter{10};
constexpr Duration kGrace = std::chrono::seconds(5);  // rank 0 keeps the time; the others wait so much longer

/// Where the bulletin has no place for a token: what is secret is STRETTO_TOKEN alone.
Token token_by_hand(const std::string& words) {
  const char* secret = std::getenv("STRETTO_TOKEN");
  return token_of_secret(text(words, ' ', secret != nullptr ? secret : ""));
}

/// Ranks of which this is the same may share memory: one machine since it was started, and one network namespace.
std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  (void)::stat("/proc/self/ns/net", &network);
  return text(boot, ' ', network.st_dev, ' ', network.st_ino, ' ', ::geteuid());
}

/// Has the kernel end a connection over which nothing passes any more: who hears alone would never learn of that.
void end_when_dead(tcp::socket& socket, Duration limit) {
  const int seconds = std::max(1, static_cast<int>(limit / std::chrono::seconds(2)));
  asio::error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const std::pair<int, int> settings[] = {{TCP_KEEPIDLE, seconds}, {TCP_KEEPINTVL, 1}, {TCP_KEEPCNT, seconds}};
  for (const auto& [option, value] : settings) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  }
}

using Tell = std::function<void(const std::string& line)>;

/// As the options say it; stderr otherwise.
Tell teller(int rank, const HostsOptions& options) {
  if (options.tell) return options.tell;
  return [rank](const std::string& line) { std::fprintf(stderr, "stretto: rank %d: %s\n", rank, line.c_str()); };
}

/// A rank's way into the meeting.
class Visit {
 public:
  Visit(NetworkThread& network, Bulletin& bulletin, const HostsOptions& options)
      : network_(network),
        bulletin_(bulletin),
        options_(options),
        tell_(teller(bulletin.rank(), options)),
        look_(options.look) {}

  Result<Roster> run();

 private:
  Result<void> open();
  Result<void> connect();
  Result<MeetingPlace> place_in(const std::string& words) const;
  MeetingPlace own_place() const {
    const tcp::endpoint at = roster_.door->endpoint();
    return {.host = at.address().to_string(), .port = std::to_string(at.port()), .token = roster_.token};
  }
  asio::awaitable<std::string> reach();
  Result<void> come();
  Result<MeetingWords> hear();
  /// Waits for what the network's thread does, and looks meanwhile. Nothing after `until`: then it has been ended.
  template <class T>
  std::optional<T> wait(std::future<T> work, TimePoint until);
  /// Waits a little before this rank tries again.
  void pause() {
    std::this_thread::sleep_for(kTryEvery);
    look_.at(clock_.now());
    tell_whom_it_waits_for();
    tell_whom_it_misses();
  }
  /// Whether the bulletin may be asked once more after this error; then it has paused.
  bool may_ask_again(const Error& error) {
    tried_ = error.message;
    if (error.code != Errc::unavailable || clock_.now() >= deadline_) return false;
    pause();
    return true;
  }
  void tell_whom_it_waits_for() {
    if (line_ || clock_.now() < tell_at_) return;  // rank 0 says who is missing
    tell_at_ = clock_.now() + Duration(kTellAfter);
    tell_(text("waits for ", bulletin_.rank() == 0 ? "its launcher" : "rank 0",
               tried_.empty() ? "" : text(" (", tried_, ')')));
  }
  void tell_whom_it_misses() {
    const MissedPeers& missed = options_.missed;
    if (missed && unreached_ && clock_.now() - *unreached_ >= missed.limit) missed.tell(0);
  }
  void abandon() {
    network_.run([this] {
      asio::error_code ignored;
      resolver_.cancel();
      socket_.close(ignored);
      if (line_) line_->cancel();
    });
  }

  NetworkThread& network_;
  Bulletin& bulletin_;
  const HostsOptions& options_;
  const Tell tell_;
  const SteadyClock clock_;
  const TimePoint deadline_ = clock_.now() + options_.timeout;
  TimePoint tell_at_ = clock_.now() + Duration(kTellAfter);
  Look look_;
  MeetingPlace at_;                     // of rank 0
  std::string tried_;                   // the same, with an error
  std::optional<TimePoint> unreached_;  // since when there is an address of rank 0's, and no way to it
  tcp::resolver resolver_{network_.io()};
  tcp::socket socket_{network_.io()};
  std::shared_ptr<Line> line_;
  tcp::endpoint own_;  // this rank's address, by which it has reached rank 0
  Roster roster_;
};

template <class T>
std::optional<T> Visit::wait(std::future<T> work, TimePoint until) {
  try {
    while (work.wait_for(kTryEvery) != std::future_status::ready && clock_.now() < until) {
      look_.at(clock_.now());
      tell_whom_it_waits_for();
      tell_whom_it_misses();
    }
  } catch (...) {
    abandon();
    work.wait();
    throw;
  }
  if (work.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return work.get();
  abandon();
  work.wait();
  return std::nullopt;
}

/// Rank 0's: listens, and says where.
Result<void> Visit::open() {
  const std::string given = bulletin_.given_address();
  asio::ip::address address;
  PortRange ports = options_.ports;
  auto addresses = addresses_of_interfaces(options_.interfaces);
  if (!addresses) return addresses.error();
  address = addresses->front();
  if (!given.empty()) {
    const auto place = place_in(given);
    if (!place) return place.error();
    asio::error_code error;
    tcp::resolver resolver(network_.io());
    auto found = resolver.resolve(place->host, place->port, error);
    // A cluster's names are known a while after what they name has begun.
    const auto unknown = [&] { return Error{Errc::unavailable, text("address ", given, ": ", error.message())}; };
    while (error && may_ask_again(unknown())) found = resolver.resolve(place->host, place->port, error);
    if (error) return Error{Errc::bad_input, text("address ", given, " of the meeting: ", error.message()), 0};
    ports.first = ports.last = found.begin()->endpoint().port();
    // What this host's own name resolves to may be loopback, where no other host comes.
    for (const auto& one : found) {
      if (std::ranges::count(*addresses, one.endpoint().address()) > 0) address = one.endpoint().address();
    }
  }
  roster_.token = given.empty() ? new_token() : token_by_hand(given);
  roster_.door = std::make_unique<Door>(network_, DoorOptions{.address = address,
                                                              .first_port = ports.first,
                                                              .last_port = ports.last,
                                                              .token = roster_.token,
                                                              .rank = 0,
                                                              .ranks = bulletin_.ranks()});
  roster_.server = std::make_unique<JobServer>(network_, *roster_.door,
                                               JobServerOptions{.ranks = bulletin_.ranks(),
                                                                .version = options_.version,
                                                                .settings = options_.settings,
                                                                .name = digits_of(new_token()),
                                                                .timeout = options_.timeout,
                                                                .tell = tell_});
  const std::string words = own_place().encoded();
  auto published = bulletin_.publish(words);
  while (!published && may_ask_again(published.error())) published = bulletin_.publish(words);
  return published;
}

/// Where rank 0 is, by what the bulletin has. A person who has given no address is told by UsageError.
Result<MeetingPlace> Visit::place_in(const std::string& words) const {
  auto place = MeetingPlace::decoded(words);
  if (place) return place;
  const std::string given = bulletin_.given_address();
  if (!given.empty())
    throw UsageError(text("address '", given, "' of the meeting: expected host:port, with a port from 1 to 65535"));
  return Error{Errc::bad_input, text("rank 0: ", place.error().message), 0};
}

/// Connects to rank 0 and says hello. Returns what has gone wrong; empty: nothing.
asio::awaitable<std::string> Visit::reach() {
  asio::error_code error;
  const auto found =
      co_await resolver_.async_resolve(at_.host, at_.port, asio::redirect_error(asio::use_awaitable, error));
  const Hello hello{.use = Hello::Use::meeting,
                    .from = bulletin_.rank(),
                    .to = 0,
                    .ranks = bulletin_.ranks(),
                    .version = options_.version};
  std::vector<tcp::endpoint> ways(found.begin(), found.end());
  // This host's own name may lead to loopback, where rank 0 does not listen.
  if (std::ranges::any_of(ways, [](const auto& way) { return way.address().is_loopback(); })) {
    const auto own = addresses_of_interfaces(options_.interfaces);
    for (const auto& address : own ? *own : std::vector<asio::ip::address>()) {
      ways.emplace_back(address, ways.front().port());
    }
  }
  if (!error) error = co_await say_hello(socket_, std::move(ways), hello, roster_.token);
  co_return error ? text(at_.address(), ": ", error.message()) : std::string();
}

Result<void> Visit::connect() {
  const auto late = [&] {
    return Error{Errc::timeout,
                 text("rank 0 has not come within ", seconds(options_.timeout), " s",
                      tried_.empty() ? "" : text("; tried ", tried_)),
                 0};
  };
  while (clock_.now() < deadline_) {
    if (roster_.door) {  // rank 0's own
      at_ = own_place();
    } else {
      const auto words = bulletin_.look_up();
      if (!words) {
        if (may_ask_again(words.error())) continue;
        return words.error().code == Errc::unavailable ? late() : words.error();
      }
      if (words->empty()) {
        tried_ = "it has left no address";
        pause();
        continue;
      }
      const auto place = place_in(*words);
      if (!place) return place.error();
      at_ = *place;
      roster_.token = at_.token ? *at_.token : token_by_hand(*words);
    }
    if (!unreached_) unreached_ = clock_.now();
    const TimePoint until = options_.missed ? clock_.now() + options_.missed.limit / 2 : deadline_;
    const auto reached = wait(asio::co_spawn(network_.io(), reach(), asio::use_future), std::min(until, deadline_));
    tried_ = reached ? *reached : text(at_.address(), ": nothing answers");
    if (tried_.empty()) {
      own_ = socket_.local_endpoint();
      if (options_.missed) end_when_dead(socket_, options_.missed.limit);
      unreached_.reset();
      line_ = std::make_shared<Line>(std::move(socket_));
      return {};
    }
    pause();
  }
  return late();
}

/// Rank 0's next words.
Result<MeetingWords> Visit::hear() {
  using Heard = std::optional<Result<MeetingWords>>;  // a future has a value that is made of nothing
  const auto listen = [line = line_, ranks = bulletin_.ranks()]() -> asio::awaitable<Heard> {
    co_return co_await line->read<MeetingWords>(ranks);
  };
  auto heard = wait(asio::co_spawn(network_.io(), listen, asio::use_future), deadline_ + kGrace);
  if (!heard) return Error{Errc::timeout, text("rank 0 has said nothing within ", seconds(options_.timeout), " s"), 0};
  return std::move(**heard);
}

/// Comes to rank 0 until it says that this rank has come: what is published may be an older meeting's.
Result<void> Visit::come() {
  while (true) {
    if (auto connected = connect(); !connected) return connected;
    if (roster_.door == nullptr) {
      roster_.door = std::make_unique<Door>(network_, DoorOptions{.address = own_.address(),
                                                                  .first_port = options_.ports.first,
                                                                  .last_port = options_.ports.last,
                                                                  .token = roster_.token,
                                                                  .rank = bulletin_.rank(),
                                                                  .ranks = bulletin_.ranks()});
    }
    const ArrivalWords arrival{.host = host_identity(),
                               .name = host_name(),
                               .process = ::getpid(),
                               .address = roster_.door->endpoint(),
                               .settings = options_.settings,
                               .offer = options_.offer};
    network_.run([&] { line_->write(arrival); });
    auto words = hear();
    if (!words && words.error().code == Errc::timeout) return words.error();
    if (words && words->why) return *words->why;
    if (words && words->kind == MeetingWords::Kind::come) return {};
    if (bulletin_.rank() != 0) roster_.door.reset();  // it knows that meeting's token
    line_.reset();
    tried_ = text(at_.address(), ": ", words ? "another job is there, or an older one" : words.error().message);
    pause();
  }
}

Result<Roster> Visit::run() {
  if (bulletin_.rank() == 0) {
    if (auto opened = open(); !opened) return opened.error();
  }
  if (auto come_there = come(); !come_there) return come_there.error();
  auto words = hear();
  if (!words && words.error().code == Errc::timeout) return words.error();
  if (!words) return Error{Errc::lost_peer, text("rank 0 is lost: ", words.error().message), 0};
  if (words->why) return *words->why;
  if (words->kind != MeetingWords::Kind::met)
    return Error{Errc::lost_peer, "rank 0 is lost: it calls nobody together", 0};
  std::vector<int> host_of;
  for (MeetingWords::Rank& rank : words->ranks) {
    host_of.push_back(rank.host);
    roster_.names.push_back(std::move(rank.name));
    roster_.addresses.push_back(rank.address);
    roster_.offers.push_back(std::move(rank.offer));
  }
  roster_.members = Members(host_of, roster_.names);
  roster_.name = std::move(words->meeting);
  roster_.control = std::make_unique<Control>(network_, line_);
  return std::move(roster_);
}

}  // namespace

Result<Roster> meet_hosts(NetworkThread& network, Bulletin& bulletin, const HostsOptions& options) {
  return Visit(network, bulletin, options).run();
}

}  // namespace stretto
