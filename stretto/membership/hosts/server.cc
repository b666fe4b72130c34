#include "stretto/membership/hosts/server.h"

#include <algorithm>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cmath>
#include <future>
#include <map>
#include <optional>
#include <utility>

#include "stretto/base/machine/host_name.h"
#include "stretto/base/words.h"
#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/peer_words.h"
#include "stretto/transport/job_memory.h"

namespace stretto {
namespace {

using asio::ip::tcp;

constexpr std::chrono::seconds kTellEvery{10};
constexpr Duration kLookEvery = std::chrono::milliseconds(100);

/// `where`: "rank 3 on h2".
Error lost(const std::string& where, int rank, const Error& why) {
  return {Errc::lost_peer, text(where, " is lost: ", why.message), rank};
}

}  // namespace

/// Of the network's thread.
class JobServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, const JobServerOptions& options)
      : io_(io), options_(options), ranks_(static_cast<std::size_t>(options.ranks)), limit_(io) {
    if (options.ranks == 1) ends_.set_value();
  }

  void begin() {
    asio::co_spawn(
        io_, [self = shared_from_this()] { return self->keep_time(); }, asio::detached);
  }
  void come(const Hello& hello, tcp::socket socket) {
    asio::co_spawn(
        io_,
        [self = shared_from_this(), hello, line = std::make_shared<Line>(std::move(socket))] {
          return self->attend(hello, line);
        },
        asio::detached);
  }
  void close() {
    closed_ = true;
    limit_.cancel();
    for (const auto& line : lines_) line->close();
  }

  std::vector<bool> goodbyes() const {
    std::vector<bool> said;
    for (const Rank& rank : ranks_) said.push_back(rank.left);
    return said;
  }
  std::shared_future<void> over() const { return over_; }
  /// A rank says no more: after a goodbye, or without one.
  void ended(int rank, const Error& why = {Errc::lost_peer, "it has ended"});
  std::vector<std::string> reports() const {
    std::vector<std::string> all;
    for (const Rank& rank : ranks_) all.push_back(rank.report);
    return all;
  }

 private:
  struct Rank {
    std::shared_ptr<Line> line;  // null: it has not come
    ArrivalWords arrival;
    std::string report;
    bool left = false, ended = false;
  };

  asio::awaitable<void> keep_time();
  asio::awaitable<void> attend(Hello hello, std::shared_ptr<Line> line);
  /// What keeps a rank that has come from being one of the job; nothing: it is.
  std::optional<Error> objection(const Hello& hello, const ArrivalWords& arrival);
  void call_together();
  void hear(int rank, const RequestWords& words);
  void refuse_all(const Error& why);
  void to_all(const MeetingWords& words) {
    for (const Rank& rank : ranks_) {
      if (rank.line && !rank.left) rank.line->write(words);
    }
  }
  std::vector<int> missing() const {
    std::vector<int> out;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      if (!ranks_[static_cast<std::size_t>(rank)].line) out.push_back(rank);
    }
    return out;
  }
  std::string where(int rank) const {
    return text("rank ", rank, " on ", ranks_[static_cast<std::size_t>(rank)].arrival.name);
  }

  asio::io_context& io_;
  const JobServerOptions options_;
  std::vector<Rank> ranks_;
  std::vector<std::shared_ptr<Line>> lines_;  // all that have come
  std::array<std::uint64_t, JobMemory::kNumCounters> counters_{};
  asio::steady_timer limit_;
  std::optional<Error> refused_;
  bool met_ = false;
  bool closed_ = false;
  std::size_t ended_ = 0;  // of the other ranks, with or without a goodbye
  std::promise<void> ends_;
  const std::shared_future<void> over_ = ends_.get_future().share();
};

asio::awaitable<void> JobServer::Impl::keep_time() {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  while (!met_ && !closed_ && !refused_) {
    const Duration left = options_.timeout - (clock.now() - begin);
    if (left <= Duration::zero()) {
      const std::vector<int> absent = missing();
      refuse_all({Errc::timeout,
                  text(ranks_in_words(absent), absent.size() == 1 ? " has" : " have", " not come within ",
                       seconds(options_.timeout), " s"),
                  absent.size() == 1 ? absent[0] : -1});
      co_return;
    }
    asio::error_code error;
    limit_.expires_after(std::min<Duration>(left, kTellEvery));
    co_await limit_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (!error && !met_ && clock.now() - begin < options_.timeout) {
      options_.tell(text("waiting for ", ranks_in_words(missing()), " of ", options_.ranks, ", ",
                         std::llround(seconds(clock.now() - begin)), " s"));
    }
  }
}

asio::awaitable<void> JobServer::Impl::attend(Hello hello, std::shared_ptr<Line> line) {
  lines_.push_back(line);
  const auto arrival = co_await line->read<ArrivalWords>();
  if (!arrival) {
    if (arrival.error().code == Errc::bad_input && !met_) {
      refuse_all(lost(text("rank ", hello.from), hello.from, arrival.error()));
    }
    co_return;
  }
  if (!refused_ && !met_) {
    if (const auto why = objection(hello, *arrival)) refuse_all(*why);
  }
  if (refused_ || met_) {
    line->write(refused_ ? MeetingWords{.kind = MeetingWords::Kind::refused, .why = refused_}
                         : MeetingWords{.kind = MeetingWords::Kind::another});
    co_return;
  }
  Rank& rank = ranks_[static_cast<std::size_t>(hello.from)];
  rank.arrival = *arrival;
  rank.line = line;
  line->write(MeetingWords{});
  if (missing().empty()) call_together();
  auto words = co_await line->read<RequestWords>();
  for (; words; words = co_await line->read<RequestWords>()) hear(hello.from, *words);
  ended(hello.from, words.error());
}

std::optional<Error> JobServer::Impl::objection(const Hello& hello, const ArrivalWords& arrival) {
  const auto differs = [&](const std::string& theirs, const std::string& ours) {
    return Error{
        Errc::bad_input,
        text("rank ", hello.from, " on ", arrival.name, " has ", theirs, ", rank 0 on ", host_name(), " ", ours),
        hello.from};
  };
  if (hello.version != options_.version) return differs(hello.version, options_.version);
  if (hello.ranks != options_.ranks) {
    return differs(text(hello.ranks, " ranks in its job"), std::to_string(options_.ranks));
  }
  for (const auto& [name, ours] : options_.settings) {
    const auto theirs = arrival.settings.find(name);
    const std::string value = theirs != arrival.settings.end() ? theirs->second : "of no kind";
    if (value != ours) return differs(text(name, ' ', value), ours);
  }
  const Rank& same = ranks_[static_cast<std::size_t>(hello.from)];
  if (!same.line) return std::nullopt;
  return Error{Errc::bad_input,
               text("two processes are rank ", hello.from, ": ", same.arrival.process, " on ", same.arrival.name,
                    " and ", arrival.process, " on ", arrival.name),
               hello.from};
}

void JobServer::Impl::call_together() {
  met_ = true;
  limit_.cancel();
  std::map<std::string, int> hosts;
  MeetingWords words{.kind = MeetingWords::Kind::met, .meeting = options_.name};
  for (const Rank& rank : ranks_) {
    words.ranks.push_back({.host = hosts.emplace(rank.arrival.host, static_cast<int>(hosts.size())).first->second,
                           .name = rank.arrival.name,
                           .address = rank.arrival.address,
                           .offer = rank.arrival.offer});
  }
  to_all(words);
}

void JobServer::Impl::hear(int of, const RequestWords& words) {
  Rank& rank = ranks_[static_cast<std::size_t>(of)];
  switch (words.kind) {
    case RequestWords::Kind::add: {
      std::uint64_t& counter = counters_[static_cast<std::size_t>(words.counter)];
      rank.line->write(CounterWords{.id = words.id, .was = std::exchange(counter, counter + words.amount)});
      return;
    }
    case RequestWords::Kind::report: rank.report = words.report; return;
    case RequestWords::Kind::left: rank.left = true; return ended(of);
  }
}

void JobServer::Impl::ended(int of, const Error& why) {
  Rank& rank = ranks_[static_cast<std::size_t>(of)];
  if (closed_ || std::exchange(rank.ended, true)) return;
  if (!met_) return refuse_all(lost(where(of), of, why));
  if (why.code == Errc::bad_input) options_.tell(lost(where(of), of, why).message);
  rank.line->close();
  if (of != 0 && ++ended_ + 1 == ranks_.size()) ends_.set_value();
}

void JobServer::Impl::refuse_all(const Error& why) {
  if (refused_) return;
  refused_ = why;
  to_all({.kind = MeetingWords::Kind::refused, .why = why});
}

JobServer::JobServer(NetworkThread& network, Door& door, const JobServerOptions& options)
    : network_(network), door_(door), impl_(std::make_shared<Impl>(network.io(), options)) {
  network.run([this] { impl_->begin(); });
  door.receive(Hello::Use::meeting,
               [impl = impl_](const Hello& hello, tcp::socket socket) { impl->come(hello, std::move(socket)); });
}

JobServer::~JobServer() {
  door_.receive(Hello::Use::meeting, nullptr);
  network_.run([this] { impl_->close(); });
}

void JobServer::lose(int rank) {
  impl_->ended(rank);
}

std::vector<bool> JobServer::wait_for_goodbyes(Duration limit, const std::function<void()>& look) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const auto over = impl_->over();
  while (over.wait_for(std::min<Duration>(limit, kLookEvery)) != std::future_status::ready) {
    if (clock.now() - begin >= limit) break;
    if (look) look();
  }
  std::vector<bool> said;
  network_.run([&] { said = impl_->goodbyes(); });
  return said;
}

std::vector<std::string> JobServer::reports() {
  std::vector<std::string> all;
  network_.run([&] { all = impl_->reports(); });
  return all;
}

}  // namespace stretto
