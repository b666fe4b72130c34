#include "stretto/membership/hosts/control.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/io_context.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <future>
#include <map>
#include <optional>
#include <utility>

#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/peer_words.h"

namespace stretto {
namespace {

constexpr std::chrono::seconds kToLeave{2};
constexpr std::chrono::milliseconds kForNews{500};

}  // namespace

/// The network's thread, but for the futures.
class Control::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, std::shared_ptr<Line> line) : line_(std::move(line)), news_(io) {}

  asio::awaitable<void> listen();
  void write(const RequestWords& words) {
    if (!ended_) line_->write(words);
  }
  std::future<Result<std::uint64_t>> ask(RequestWords words) {
    words.id = ++asked_;
    std::promise<Result<std::uint64_t>> answer;
    auto answered = answer.get_future();
    if (ended_) {
      answer.set_value(*ended_);
    } else {
      answers_.emplace(asked_, std::move(answer));
      write(words);
    }
    return answered;
  }
  void end(const Error& why) {
    if (ended_) return;
    ended_ = why;
    news_.cancel();
    for (auto& [id, answer] : answers_) answer.set_value(why);
    answers_.clear();
    line_->close();
  }
  void leave() {
    leaves_ = true;
    write({.kind = RequestWords::Kind::left});
  }
  std::shared_future<void> over() const { return over_; }
  void close() {
    leaves_ = true;
    news_.cancel();
    line_->close();
  }

 private:
  void hear(const CounterWords& words);

  const std::shared_ptr<Line> line_;
  asio::steady_timer news_;
  std::map<std::uint64_t, std::promise<Result<std::uint64_t>>> answers_;
  std::uint64_t asked_ = 0;
  std::promise<void> ends_;
  const std::shared_future<void> over_ = ends_.get_future().share();
  std::optional<Error> ended_;
  bool leaves_ = false;
};

asio::awaitable<void> Control::Impl::listen() {
  auto words = co_await line_->read<CounterWords>();
  for (; words; words = co_await line_->read<CounterWords>()) hear(*words);
  // Rank 0 may have ended because of another loss, of which this rank is about to hear.
  asio::error_code ignored;
  news_.expires_after(kForNews);
  if (!ended_ && !leaves_) co_await news_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  end({Errc::lost_peer, text("rank 0, which has the counters of the job, is lost: ", words.error().message), 0});
  ends_.set_value();
}

void Control::Impl::hear(const CounterWords& words) {
  const auto answer = answers_.find(words.id);
  if (answer == answers_.end()) return;
  answer->second.set_value(words.was);
  answers_.erase(answer);
}

Control::Control(NetworkThread& network, std::shared_ptr<Line> line)
    : network_(network), impl_(std::make_shared<Impl>(network.io(), std::move(line))) {
  asio::co_spawn(
      network.io(), [impl = impl_] { return impl->listen(); }, asio::detached);
}

Control::~Control() {
  network_.run([this] { impl_->close(); });
}

std::uint64_t Control::fetch_add(int counter, std::uint64_t amount) {
  std::future<Result<std::uint64_t>> answer;
  network_.run([&] { answer = impl_->ask({.kind = RequestWords::Kind::add, .counter = counter, .amount = amount}); });
  const auto was = answer.get();
  if (!was) throw Failure(was.error());
  return *was;
}

void Control::report(const std::string& text) {
  network_.run([&] { impl_->write({.kind = RequestWords::Kind::report, .report = text}); });
}

void Control::end(const Error& why) {
  asio::dispatch(network_.io(), [impl = impl_, why] { impl->end(why); });
}

void Control::leave() {
  network_.run([this] { impl_->leave(); });
  impl_->over().wait_for(kToLeave);
}

}  // namespace stretto
