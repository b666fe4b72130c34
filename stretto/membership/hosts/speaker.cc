#include "stretto/membership/hosts/speaker.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/liveness/clock_offset.h"
#include "stretto/membership/hosts/liveness/liveness_rule.h"
#include "stretto/membership/hosts/liveness/marks.h"
#include "stretto/membership/hosts/liveness/turn.h"
#include "stretto/membership/hosts/peer_words.h"

namespace stretto {
namespace {

using asio::ip::tcp;
using Fact = LivenessFact;

constexpr std::chrono::milliseconds kStepEvery{50};
constexpr std::chrono::milliseconds kKnockEvery{100};
constexpr std::chrono::seconds kToReach{1};
constexpr std::chrono::seconds kForGoodbye{2};

}  // namespace

/// The network's thread, but for the future.
class Speaker::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, const Roster& roster, JobMemory& memory, HostNews& news, int rank, Duration limit,
       Lost lost)
      : io_(io),
        members_(roster.members),
        addresses_(roster.addresses),
        names_(roster.names),
        token_(roster.token),
        memory_(memory),
        news_(news),
        rank_(rank),
        host_(members_.host_of(rank)),
        place_(members_.place_of(rank)),
        limit_(limit),
        lost_(std::move(lost)),
        ended_(static_cast<std::size_t>(memory.ranks())) {}

  void begin() {
    spawn([this] { return look_on(); });
    for (int place = 0; place < memory_.ranks(); ++place) {
      if (place != place_) spawn([this, place] { return watch(place); });
    }
  }
  void come(const Hello& hello, tcp::socket socket) {
    // Otherwise closed here: another rank speaks.
    if (!rule_ || closed_ || !edges_.contains(members_.host_of(hello.from))) return;
    auto line = std::make_shared<Line>(std::move(socket));
    line->write(beat_for(members_.host_of(hello.from)));
    listen_to(hello.from, line);
  }
  std::future<void> leave() {
    lost_ = nullptr;
    spawn([this] { return say_goodbye(); });
    return left_.get_future();
  }
  void close() {
    closed_ = true;
    lost_ = nullptr;
    for (auto& [place, process] : processes_) process->cancel();
    stop_speaking();
  }

 private:
  using LinePtr = std::shared_ptr<Line>;
  /// The way to a neighbour: lines that are open, of which the last is written to.
  struct Edge {
    std::vector<LinePtr> lines;
    bool reaching = false;
    bool heard_goodbye = false;
  };

  template <class Work>
  void spawn(Work work) {
    asio::co_spawn(
        io_, [self = shared_from_this(), work = std::move(work)] { return work(); }, asio::detached);
  }
  asio::awaitable<void> pause(Duration length) {
    asio::error_code ignored;
    asio::steady_timer timer(io_, length);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  asio::awaitable<void> look_on();
  asio::awaitable<void> watch(int place);
  asio::awaitable<void> reach(int host);
  asio::awaitable<LinePtr> knock(int rank, bool& refused);
  asio::awaitable<void> listen(int rank, LinePtr line);
  asio::awaitable<void> say_goodbye();

  void look();
  void take_news();
  /// Whether there is no line to a host, or none that works: where a link comes back, a new connection hears of it
  /// before an old one, whose kernel waits ever longer between two attempts.
  bool needs_line(int host) {
    return rule_ && rule_->lives(host) && (edges_[host].lines.empty() || rule_->is_late(host, clock_.now()));
  }
  void begin_to_speak();
  void stop_speaking();
  void look_at_own();
  void learn(const Fact& fact, int by) { learn_and_keep(fact, by, news_, *rule_, clock_.now()); }
  void act();
  void act_on(const LivenessRule::Action& action);
  void hear(int host, const SpeakerWords& words);
  void hear_beat(int host, const BeatTimes& times);
  SpeakerWords beat_for(int host) const { return {.times = clocks_.times_for(host, clock_.now())}; }
  void leave_word_of_clock() {
    if (const auto reading = clocks_.reading(clock_.now())) news_.set_clock_offset(reading->ahead);
  }
  void write(int host, const SpeakerWords& words) {
    if (auto& lines = edges_[host].lines; !lines.empty()) lines.back()->write(words);
  }
  /// `rank`: which speaks on the line.
  void listen_to(int rank, const LinePtr& line) {
    const int host = members_.host_of(rank);
    edges_[host].lines.push_back(line);
    rule_->connected(host, clock_.now());
    spawn([this, rank, line] { return listen(rank, line); });
    act();
  }
  /// Whether the rank at this place of the host has left or ended.
  bool is_gone(int place) const {
    return ended_[static_cast<std::size_t>(place)] || memory_.fate(place).kind != RankFate::Kind::running;
  }
  /// `said`: what the rank has said before it ended.
  Fact end_of(int rank, const std::string& said) const {
    const std::string how = text(" is lost: its process on ", name_of(members_.host_of(rank)), " has ended");
    return {Fact::Kind::ended, rank, 0, text("rank ", rank, said.empty() ? how : " stopped the job: " + said),
            !said.empty()};
  }
  const std::string& name_of(int host) const { return names_[static_cast<std::size_t>(members_.on(host).front())]; }

  asio::io_context& io_;
  const Members members_;
  const std::vector<tcp::endpoint> addresses_;
  const std::vector<std::string> names_;
  const Token token_;
  JobMemory& memory_;
  HostNews& news_;
  const int rank_, host_, place_;
  const Duration limit_;
  Lost lost_;
  const SteadyClock clock_;

  std::vector<bool> ended_;  // by place: processes that have
  SpeakersTurn turn_{place_, clock_.now()};
  std::vector<int> told_;             // ranks that lost_ has heard of
  std::optional<LivenessRule> rule_;  // where this rank speaks
  ClockOffset clocks_{host_};
  std::map<int, Edge> edges_;                                                 // by host
  std::map<int, std::unique_ptr<asio::posix::stream_descriptor>> processes_;  // by place
  std::promise<void> left_;
  bool leaving_ = false, closed_ = false;
};

asio::awaitable<void> Speaker::Impl::look_on() {
  while (!closed_) {
    look();
    co_await pause(kStepEvery);
  }
}

/// Waits for the end of a process of this host.
asio::awaitable<void> Speaker::Impl::watch(int place) {
  // Until it has made its transport. The memory is there until this is closed.
  while (!closed_ && memory_.process(place) == 0) co_await pause(kStepEvery);
  if (closed_) co_return;
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, memory_.process(place), 0));
  if (descriptor < 0 && errno != ESRCH) co_return;  // in another namespace: the memory alone says how it ends
  if (descriptor >= 0) {
    auto& process = processes_[place];
    process = std::make_unique<asio::posix::stream_descriptor>(io_, descriptor);
    asio::error_code error;
    co_await process->async_wait(asio::posix::stream_descriptor::wait_read,
                                 asio::redirect_error(asio::use_awaitable, error));
    processes_.erase(place);
  }
  if (closed_) co_return;
  ended_[static_cast<std::size_t>(place)] = true;
  look();
}

void Speaker::Impl::look() {
  take_news();
  if (memory_.fate(place_).kind != RankFate::Kind::running) return;
  if (!turn_.is_mine(
          news_.beat(), [this](int place) { return is_gone(place); }, clock_.now())) {
    return stop_speaking();
  }
  begin_to_speak();
  look_at_own();
  act();
}

void Speaker::Impl::take_news() {
  if (news_.lost() == told_.size()) return;
  for (const Error& why : news_.all_lost()) {
    if (std::ranges::count(told_, why.rank) > 0) continue;
    told_.push_back(why.rank);
    if (lost_) lost_(why);
  }
}

void Speaker::Impl::begin_to_speak() {
  if (rule_) return;
  rule_.emplace(members_, host_, limit_, clock_.now());
  for (const int host : LivenessRule::neighbours(members_.hosts(), host_)) edges_.try_emplace(host);
  leave_word_of_clock();
  take_up(news_, members_, *rule_, clock_.now());
}

void Speaker::Impl::stop_speaking() {
  rule_.reset();
  for (auto& [host, edge] : edges_) {
    for (const LinePtr& line : edge.lines) line->close();
    edge.lines.clear();
  }
}

void Speaker::Impl::look_at_own() {
  const TimePoint now = clock_.now();
  const auto here = members_.on(host_);
  for (int place = 0; place < memory_.ranks(); ++place) {
    const int rank = here[static_cast<std::size_t>(place)];
    const RankFate fate = memory_.fate(place);
    if (fate.kind == RankFate::Kind::left) {
      learn({Fact::Kind::left, rank}, -1);
    } else if (is_gone(place)) {
      learn(end_of(rank, fate.kind == RankFate::Kind::lost ? memory_.why(place) : ""), -1);
    }
  }
  for (auto& [host, edge] : edges_) {
    const Duration since = edge.lines.empty() ? limit_ : edge.lines.back()->since_heard();
    if (since < limit_) rule_->acknowledged(host, now - since);
    if (needs_line(host) && !std::exchange(edge.reaching, true)) spawn([this, host = host] { return reach(host); });
  }
}

void Speaker::Impl::act() {
  while (rule_) {
    const auto action = rule_->next(clock_.now());
    if (!action) return;
    act_on(*action);
  }
}

void Speaker::Impl::act_on(const LivenessRule::Action& action) {
  switch (action.kind) {
    case LivenessRule::Action::Kind::beat: return write(action.host, beat_for(action.host));
    case LivenessRule::Action::Kind::tell:
      return write(action.host, {.kind = SpeakerWords::Kind::fact, .fact = action.fact});
    case LivenessRule::Action::Kind::ended:
    case LivenessRule::Action::Kind::silent:
    case LivenessRule::Action::Kind::cut:
      mark(action, *rule_, members_, host_, names_, limit_, news_);
      return take_news();
  }
}

/// Connects to the rank that speaks for a host. Where none of its processes is there any more, those that have not left
/// have ended. Those that have left are asked, too: what the last one says comes word by word, and is known when it is
/// gone.
asio::awaitable<void> Speaker::Impl::reach(int host) {
  LinePtr line;
  int speaks = -1;
  while (!line && needs_line(host)) {
    bool all_refuse = true;
    for (const int rank : members_.on(host)) {
      if (line || !rule_ || rule_->knows(Fact::Kind::ended, rank)) continue;
      bool refused = false;
      line = co_await knock(rank, refused);
      speaks = rank;
      all_refuse &= refused;
    }
    // One that leaves hears goodbyes for as long as it says its own.
    if (rule_) take_goodbyes(news_, members_, *rule_, clock_.now());
    // Where this one leaves, too, they may not have been heard by it.
    if (all_refuse && needs_line(host) && !leaving_) {
      for (const int rank : members_.on(host)) {
        if (!rule_->is_gone(rank)) learn(end_of(rank, ""), -1);
      }
      act();
    } else if (!line) {
      co_await pause(kKnockEvery);
    }
  }
  edges_[host].reaching = false;
  if (line && rule_) listen_to(speaks, line);
}

/// A line to this rank, if it speaks. `refused`: no process listens there any more.
asio::awaitable<Speaker::Impl::LinePtr> Speaker::Impl::knock(int rank, bool& refused) {
  const auto socket = std::make_shared<tcp::socket>(io_);
  asio::steady_timer limit(io_, std::min<Duration>(kToReach, limit_ / 4));
  limit.async_wait([socket](asio::error_code error) {
    asio::error_code ignored;
    if (!error) socket->close(ignored);
  });
  const std::vector<tcp::endpoint> at(1, addresses_[static_cast<std::size_t>(rank)]);
  const Hello hello{.use = Hello::Use::beats, .from = rank_, .to = rank, .ranks = members_.size(), .version = {}};
  asio::error_code error = co_await say_hello(*socket, at, hello, token_);
  refused = error == asio::error::connection_refused;
  // The kernel of a process that stands still takes the connection, and nobody speaks: the host is there.
  if (!error) {
    if (rule_) rule_->acknowledged(members_.host_of(rank), clock_.now());
    co_await socket->async_wait(tcp::socket::wait_read, asio::redirect_error(asio::use_awaitable, error));
  }
  limit.cancel();
  if (error || socket->available(error) == 0 || error) co_return nullptr;
  co_return std::make_shared<Line>(std::move(*socket));
}

asio::awaitable<void> Speaker::Impl::listen(int rank, LinePtr line) {
  const int host = members_.host_of(rank);
  const auto next = [&] { return line->read<SpeakerWords>(members_.size(), members_.hosts()); };
  auto words = co_await next();
  for (; words; words = co_await next()) {
    if (!rule_) continue;
    // Words that came while this process stood still are no sign that the host is there now.
    rule_->heard(host, clock_.now() - line->since_heard());
    hear(host, *words);
  }
  line->close();
  std::erase(edges_[host].lines, line);
  if (!rule_ || closed_) co_return;
  if (const auto end = end_by_line(rank, words.error())) learn(*end, -1);
  look();
}

/// The first reading goes on to all at once: some of them may wait for it.
void Speaker::Impl::hear_beat(int host, const BeatTimes& times) {
  const TimePoint now = clock_.now();
  const bool knew = clocks_.reading(now).has_value();
  clocks_.heard(host, times, now);
  leave_word_of_clock();
  const bool first = !knew && clocks_.reading(now);
  for (const auto& [other, edge] : edges_) {
    if (first || (other == host && clocks_.wants_beat(host))) write(other, beat_for(other));
  }
}

void Speaker::Impl::hear(int host, const SpeakerWords& words) {
  switch (words.kind) {
    case SpeakerWords::Kind::beat: return hear_beat(host, words.times);
    case SpeakerWords::Kind::goodbye: return write(host, {.kind = SpeakerWords::Kind::heard});
    case SpeakerWords::Kind::heard: edges_[host].heard_goodbye = true; return;
    case SpeakerWords::Kind::fact: learn(words.fact, host); return act();
  }
}

/// Tells the other hosts that this rank has left, or has ended. The last one of its host reaches them for it, whether
/// it has spoken before or not, and waits until they have heard: nobody else is there to tell.
asio::awaitable<void> Speaker::Impl::say_goodbye() {
  const TimePoint end = clock_.now() + Duration(kForGoodbye);
  leaving_ = true;
  bool last = true;
  for (int place = 0; place < memory_.ranks(); ++place) last &= place == place_ || is_gone(place);
  if (last) begin_to_speak();
  std::map<int, LinePtr> asked;
  const auto all_told = [&] {
    bool all = true;
    for (auto& [host, edge] : edges_) {
      if (!rule_->lives(host) || edge.heard_goodbye) continue;
      if (!edge.lines.empty() && std::exchange(asked[host], edge.lines.back()) != edge.lines.back()) {
        write(host, {.kind = SpeakerWords::Kind::goodbye});
      }
      all &= !last && edge.lines.empty();  // its deputy reaches them
    }
    return all;
  };
  if (rule_) look_at_own(), act();
  while (rule_ && !all_told() && clock_.now() < end) {
    co_await pause(std::chrono::milliseconds(1));
    if (rule_ && last) look_at_own(), act();
  }
  stop_speaking();
  left_.set_value();
}

Speaker::Speaker(NetworkThread& network, const Roster& roster, JobMemory& memory, HostNews& news, int rank,
                 Duration limit, Lost lost)
    : network_(network),
      door_(*roster.door),
      impl_(std::make_shared<Impl>(network.io(), roster, memory, news, rank, limit, std::move(lost))) {
  network.run([this] { impl_->begin(); });
  door_.receive(Hello::Use::beats,
                [impl = impl_](const Hello& hello, tcp::socket socket) { impl->come(hello, std::move(socket)); });
}

Speaker::~Speaker() {
  door_.receive(Hello::Use::beats, nullptr);
  network_.run([this] { impl_->close(); });
}

void Speaker::leave() {
  std::future<void> left;
  network_.run([&] { left = impl_->leave(); });
  left.wait();
}

}  // namespace stretto
