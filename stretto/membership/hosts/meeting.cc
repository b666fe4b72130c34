#include "stretto/membership/hosts/meeting.h"

#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
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
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/engine/driver.h"
#include "stretto/membership/hosts/line.h"

namespace stretto {
namespace {

using asio::ip::tcp;
using nlohmann::json;

constexpr std::chrono::milliseconds kTryEvery{100};
constexpr std::chrono::seconds kTellAfter{10};
constexpr Duration kGrace = std::chrono::seconds(5);  // rank 0 keeps the time; the others wait so much longer

/// "host:port", "[::1]:port".
std::pair<std::string, std::string> host_and_port(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    throw UsageError(text("address '", address, "' of the meeting: expected host:port"));
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

/// Where the bulletin has no place for a token: what is secret is STRETTO_TOKEN alone.
Token token_by_hand(const std::string& words) {
  const char* secret = std::getenv("STRETTO_TOKEN");
  const std::string all = text(words, ' ', secret != nullptr ? secret : "");
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  Token token{};
  std::memcpy(token.data(), &hash, token.size());
  return token;
}

/// Ranks of which this is the same may share memory: one machine since it was started, and one network namespace.
std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  (void)::stat("/proc/self/ns/net", &network);
  return text(boot, ' ', network.st_dev, ' ', network.st_ino, ' ', ::geteuid());
}

std::string host_name() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::optional<Error> refusal(const std::optional<json>& words) {
  if (!words || !words->contains("refused")) return std::nullopt;
  return Error{static_cast<Errc>(words->value("code", 0)), words->value("refused", ""), words->value("rank", -1)};
}

/// A rank's way into the meeting.
class Visit {
 public:
  Visit(NetworkThread& network, Bulletin& bulletin, const HostsOptions& options)
      : network_(network), bulletin_(bulletin), options_(options), look_(options.look) {}

  Result<Roster> run();

 private:
  Result<void> open();
  Result<void> connect();
  asio::awaitable<std::string> reach(std::string address);
  Result<void> come();
  Result<std::optional<json>> hear();
  /// Waits for what the network's thread does, and looks meanwhile. Nothing after `until`: then it has been ended.
  template <class T>
  std::optional<T> wait(std::future<T> work, TimePoint until);
  /// Waits a little before this rank tries again.
  void pause() {
    std::this_thread::sleep_for(kTryEvery);
    look_.at(clock_.now());
    tell_whom_it_waits_for();
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
    tell(text("waits for ", bulletin_.rank() == 0 ? "its launcher" : "rank 0",
              tried_.empty() ? "" : text(" (", tried_, ')')));
  }
  void abandon() {
    network_.run([this] {
      asio::error_code ignored;
      resolver_.cancel();
      socket_.close(ignored);
      if (line_) line_->cancel();
    });
  }
  void tell(const std::string& line) const {
    if (options_.tell) return options_.tell(line);
    std::fprintf(stderr, "stretto: rank %d: %s\n", bulletin_.rank(), line.c_str());
  }

  NetworkThread& network_;
  Bulletin& bulletin_;
  const HostsOptions& options_;
  const SteadyClock clock_;
  const TimePoint deadline_ = clock_.now() + options_.timeout;
  TimePoint tell_at_ = clock_.now() + Duration(kTellAfter);
  Look look_;
  std::string at_;     // rank 0's address
  std::string tried_;  // the same, with an error
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
    const auto [host, service] = host_and_port(given);
    asio::error_code error;
    tcp::resolver resolver(network_.io());
    const auto found = resolver.resolve(host, service, error);
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
  roster_.server =
      std::make_unique<JobServer>(network_, *roster_.door,
                                  JobServerOptions{.ranks = bulletin_.ranks(),
                                                   .version = options_.version,
                                                   .name = digits_of(new_token()),
                                                   .timeout = options_.timeout,
                                                   .tell = [this](const std::string& line) { tell(line); }});
  const std::string words = text(roster_.door->endpoint(), '/', digits_of(roster_.token));
  auto published = bulletin_.publish(words);
  while (!published && may_ask_again(published.error())) published = bulletin_.publish(words);
  return published;
}

/// Connects to rank 0 and says hello. Returns what has gone wrong; empty: nothing.
asio::awaitable<std::string> Visit::reach(std::string address) {
  const auto [host, port] = host_and_port(address);
  asio::error_code error;
  const auto found = co_await resolver_.async_resolve(host, port, asio::redirect_error(asio::use_awaitable, error));
  const Hello hello{.use = Hello::Use::meeting,
                    .from = bulletin_.rank(),
                    .to = 0,
                    .ranks = bulletin_.ranks(),
                    .version = options_.version};
  if (!error) error = co_await say_hello(socket_, {found.begin(), found.end()}, hello, roster_.token);
  co_return error ? text(address, ": ", error.message()) : std::string();
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
      at_ = text(roster_.door->endpoint());
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
      const auto slash = words->find('/');
      at_ = words->substr(0, slash);
      const auto token = slash == std::string::npos ? token_by_hand(*words) : token_of(words->substr(slash + 1));
      if (!token) return token.error();
      roster_.token = *token;
    }
    (void)host_and_port(at_);  // throws here, and not on the network's thread
    const auto reached = wait(asio::co_spawn(network_.io(), reach(at_), asio::use_future), deadline_);
    if (!reached) return late();
    tried_ = *reached;
    if (tried_.empty()) {
      own_ = socket_.local_endpoint();
      line_ = std::make_shared<Line>(std::move(socket_));
      return {};
    }
    pause();
  }
  return late();
}

/// Rank 0's next words; none: it has ended, or is none of this job.
Result<std::optional<json>> Visit::hear() {
  auto heard = wait(asio::co_spawn(
                        network_.io(), [line = line_] { return line->read(); }, asio::use_future),
                    deadline_ + kGrace);
  if (!heard) return Error{Errc::timeout, text("rank 0 has said nothing within ", seconds(options_.timeout), " s"), 0};
  return *heard;
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
    const tcp::endpoint at = roster_.door->endpoint();
    const json facts{{"host", host_identity()},
                     {"name", host_name()},
                     {"process", ::getpid()},
                     {"address", {{"host", at.address().to_string()}, {"port", at.port()}}}};
    network_.run([&] { line_->write(facts); });
    const auto words = hear();
    if (!words) return words.error();
    if (const auto why = refusal(*words)) return *why;
    if (*words && (*words)->contains("come")) return {};
    if (bulletin_.rank() != 0) roster_.door.reset();  // it knows that meeting's token
    line_.reset();
    tried_ = text(at_, ": another job is there, or an older one");
    pause();
  }
}

Result<Roster> Visit::run() {
  if (bulletin_.rank() == 0) {
    if (auto opened = open(); !opened) return opened.error();
  }
  if (auto come_there = come(); !come_there) return come_there.error();
  const auto words = hear();
  if (!words) return words.error();
  if (!*words) return Error{Errc::lost_peer, "rank 0 has ended while the ranks met", 0};
  if (const auto why = refusal(*words)) return *why;
  const json& roster = **words;
  roster_.members = Members(roster.value("hosts", std::vector<int>()));
  for (const json& address : roster.value("addresses", json::array())) {
    roster_.addresses.emplace_back(asio::ip::make_address(address.value("host", "")),
                                   static_cast<std::uint16_t>(address.value("port", 0)));
  }
  roster_.names = roster.value("names", std::vector<std::string>());
  roster_.name = roster.value("name", "");
  roster_.control = std::make_unique<Control>(network_, line_);
  return std::move(roster_);
}

}  // namespace

Result<Roster> meet_hosts(NetworkThread& network, Bulletin& bulletin, const HostsOptions& options) {
  return Visit(network, bulletin, options).run();
}

}  // namespace stretto
