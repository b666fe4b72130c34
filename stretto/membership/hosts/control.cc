#include "stretto/membership/hosts/control.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "stretto/membership/hosts/line.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kToLeave{2};

}  // namespace

/// The network's thread, but for the futures.
class Control::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(std::shared_ptr<Line> line) : line_(std::move(line)) {}

  asio::awaitable<void> listen();
  void write(const json& words) {
    if (!ended_) line_->write(words);
  }
  std::future<Result<std::uint64_t>> ask(json words) {
    words["id"] = ++asked_;
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
    for (auto& [id, answer] : answers_) answer.set_value(why);
    answers_.clear();
    line_->close();
  }
  void leave() { write({{"left", true}}); }
  std::shared_future<void> over() const { return over_; }
  void close() { line_->close(); }

 private:
  void hear(const json& words);

  const std::shared_ptr<Line> line_;
  std::map<std::uint64_t, std::promise<Result<std::uint64_t>>> answers_;
  std::uint64_t asked_ = 0;
  std::promise<void> ends_;
  const std::shared_future<void> over_ = ends_.get_future().share();
  std::optional<Error> ended_;
};

asio::awaitable<void> Control::Impl::listen() {
  while (const auto words = co_await line_->read()) hear(*words);
  end({Errc::lost_peer, "rank 0, which has the counters of the job, is lost", 0});
  ends_.set_value();
}

void Control::Impl::hear(const json& words) {
  const auto answer = answers_.find(words.value("id", std::uint64_t{0}));
  if (answer == answers_.end() || !words.contains("was")) return;
  answer->second.set_value(words.value("was", std::uint64_t{0}));
  answers_.erase(answer);
}

Control::Control(NetworkThread& network, std::shared_ptr<Line> line)
    : network_(network), impl_(std::make_shared<Impl>(std::move(line))) {
  asio::co_spawn(
      network.io(), [impl = impl_] { return impl->listen(); }, asio::detached);
}

Control::~Control() {
  network_.run([this] { impl_->close(); });
}

std::uint64_t Control::fetch_add(int counter, std::uint64_t amount) {
  std::future<Result<std::uint64_t>> answer;
  network_.run([&] { answer = impl_->ask({{"add", counter}, {"by", amount}}); });
  const auto was = answer.get();
  if (!was) throw Failure(was.error());
  return *was;
}

void Control::report(const std::string& text) {
  network_.run([&] { impl_->write({{"report", text}}); });
}

void Control::end(const Error& why) {
  impl_->end(why);
}

void Control::leave() {
  network_.run([this] { impl_->leave(); });
  impl_->over().wait_for(kToLeave);
}

}  // namespace stretto
